//! Reductions of a long axis in pieces.

use burn::tensor::Tensor;

/// Reduces axis `dim` by `reduce`, which reduces the middle axis of pieces of at most `most` elements, and `join`, which reduces two
/// results.
pub(super) fn in_pieces<const D: usize>(
    x: Tensor<D>,
    dim: usize,
    most: usize,
    reduce: fn(Tensor<3>) -> Tensor<3>,
    join: fn(Tensor<3>, Tensor<3>) -> Tensor<3>,
) -> Tensor<D> {
    let mut shape = x.dims();
    let outer: usize = shape[..dim].iter().product();
    let inner: usize = shape[dim + 1..].iter().product();
    let len = shape[dim];
    shape[dim] = 1;
    let whole: Tensor<3> = x.reshape([outer, len, inner]);
    middle(whole, most, reduce, join).reshape(shape)
}

/// Reduces the middle axis in pieces of `most` elements, which is at least 2, then the axis of the pieces in the same way.
fn middle(
    x: Tensor<3>,
    most: usize,
    reduce: fn(Tensor<3>) -> Tensor<3>,
    join: fn(Tensor<3>, Tensor<3>) -> Tensor<3>,
) -> Tensor<3> {
    let [outer, len, inner] = x.dims();
    if len <= most {
        return reduce(x);
    }
    let (pieces, rest) = (len / most, len % most);
    let whole = x.clone().narrow(1, 0, pieces * most);
    let whole: Tensor<3> = whole.reshape([outer * pieces, most, inner]);
    let whole = reduce(whole).reshape([outer, pieces, inner]);
    let whole = middle(whole, most, reduce, join);
    if rest == 0 {
        return whole;
    }
    join(whole, reduce(x.narrow(1, pieces * most, rest)))
}
