//! Operations that the compilers of other devices fuse into one kernel, and that run here in one pass on Flex, where every operation of
//! Burn writes a tensor of its own.

use crate::Error;
use burn::nn::RmsNorm;
use burn::tensor::{DType, Tensor};
use moebius_ops::Mismatch;
#[cfg(feature = "flex")]
use std::ops::ControlFlow;

/// Computes Burn's norm, x / √(mean(x²) + ε) · γ over the last dimension; in one pass on Flex if no gradients are recorded. With γ in f32, and
/// in that pass, everything is computed in f32, and rounded to the dtype of x at the end.
///
/// # Panics
/// As the norm's own forward, for an x of another width.
pub fn rms_norm<const D: usize>(norm: &RmsNorm, x: Tensor<D>) -> Tensor<D> {
    // Nothing is left to be normed, and kernels aren't launched for nothing.
    if x.shape().num_elements() == 0 && x.dims().last() == norm.gamma.dims().last() {
        return x;
    }
    #[cfg(feature = "flex")]
    let x = match flex::rms_norm(x, norm.gamma.val(), norm.epsilon) {
        ControlFlow::Break(y) => return y,
        ControlFlow::Continue(x) => x,
    };
    let dtype = x.dtype();
    // The gradient of γ is a sum over all rows, of which 16 bits would round each term.
    let x = match norm.gamma.dtype() {
        DType::F32 => x.cast(DType::F32),
        _ => x,
    };
    norm.forward(x).cast(dtype)
}

/// Rotates pairs of elements of x \[B, S, heads, D\] by angles, as rotary position embeddings do (Su et al. 2021): (l, r) becomes (l · cos
/// − r · sin, r · cos + l · sin). Interleaved pairs come out in separate halves, like pairs of the other kind; queries and keys are
/// permuted alike, so their products don't change.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for tables of cosines and sines of another shape than \[B or 1, S, 1, rotated / 2\], and
/// for more rotated elements than a head has.
pub fn rotate(x: Tensor<4>, tables: [Tensor<4>; 2], pairs: Pairs) -> Result<Tensor<4>, Error> {
    let ([b, s, heads, width], Pairs { at, interleaved }) = (x.dims(), pairs);
    let [cos, sin] = tables.each_ref().map(Tensor::dims);
    let half = cos[3];
    let fits = [[1, s, 1, half], [b, s, 1, half]].contains(&cos) && sin == cos;
    let expected = format_args!("[{b} or 1, {s}, 1, half of what is turned], both");
    let got = format_args!("{cos:?} and {sin:?}");
    Mismatch::unless(fits, "cosines and sines", expected, got)?;
    let end = at + 2 * half;
    let expected = format_args!("at most {width}");
    Mismatch::unless(end <= width, "end of what is turned", expected, end)?;
    if b * s * heads * half == 0 {
        return Ok(x);
    }
    #[cfg(feature = "flex")]
    let x = match flex::rotate(x, &tables, pairs) {
        ControlFlow::Break(y) => return Ok(y),
        ControlFlow::Continue(x) => x,
    };
    let [cos, sin] = tables;
    let [left, right] = if interleaved {
        let pairs = x.clone().narrow(3, at, 2 * half);
        let pairs = pairs.reshape([b, s, heads, half, 2]);
        [0, 1].map(|side| {
            let side = pairs.clone().narrow(4, side, 1);
            side.reshape([b, s, heads, half])
        })
    } else {
        [at, at + half].map(|from| x.clone().narrow(3, from, half))
    };
    let turned = [
        left.clone() * cos.clone() - right.clone() * sin.clone(),
        right * cos + left * sin,
    ];
    let before = (at > 0).then(|| x.clone().narrow(3, 0, at));
    let after = (end < width).then(|| x.narrow(3, end, width - end));
    let parts = before.into_iter().chain(turned).chain(after);
    Ok(Tensor::cat(parts.collect(), 3))
}

/// The pairs of elements of a head that are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairs {
    /// The index of the first rotated element.
    pub at: usize,
    /// Whether the elements of a pair are neighbours; otherwise element i is paired with the element half of the rotated width after it.
    pub interleaved: bool,
}

#[cfg(feature = "flex")]
mod flex {
    //! The operations on Flex without recorded gradients, computed in f32. A tensor that isn't of this kind comes back, so that no handle is cloned
    //! to try.

    use super::Pairs;
    use crate::ops::host::{Rows, cast_like, contiguous, float_tensor, to_f32};
    use burn::backend::{
        BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind,
    };
    use burn::tensor::{DType, Tensor};
    use moebius_host::fused::{self, Rotation};
    use std::ops::ControlFlow::{self, Break, Continue};

    /// Returns the contiguous values, in f32, of a tensor on Flex that records no gradients, or another tensor as it is.
    fn on_host<const D: usize>(tensor: Tensor<D>) -> ControlFlow<Rows, Tensor<D>> {
        match tensor.into_dispatch() {
            DispatchTensor {
                kind: DispatchTensorKind::Flex(BackendTensor::Float(values)),
                autodiff: DispatchAutodiffContext::Disabled,
            } if matches!(values.dtype(), DType::F32 | DType::F16 | DType::BF16) => {
                Break(contiguous(to_f32(values)))
            }
            other => Continue(Tensor::from_dispatch(other)),
        }
    }

    /// A tensor of these values, rounded to `dtype`.
    fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D], dtype: DType) -> Tensor<D> {
        let values = cast_like(float_tensor(values, &shape), dtype);
        let tensor = DispatchTensor {
            kind: DispatchTensorKind::Flex(BackendTensor::Float(values)),
            autodiff: DispatchAutodiffContext::Disabled,
        };
        Tensor::from_dispatch(tensor)
    }

    /// Computes the norm with the weights γ, or returns x where that isn't done here.
    pub(super) fn rms_norm<const D: usize>(
        x: Tensor<D>,
        gamma: Tensor<1>,
        epsilon: f64,
    ) -> ControlFlow<Tensor<D>, Tensor<D>> {
        let (shape, dtype) = (x.dims(), x.dtype());
        let Break(gamma) = on_host(gamma) else {
            return Continue(x);
        };
        let gamma: &[f32] = gamma.storage();
        if shape.last() != Some(&gamma.len()) {
            return Continue(x);
        }
        let values = match on_host(x) {
            Break(values) => values,
            Continue(x) => return Continue(x),
        };
        let y = fused::rms_norm(values.storage(), gamma, epsilon as f32);
        Break(tensor(y, shape, dtype))
    }

    /// Turns the pairs, or returns x where that isn't done here.
    pub(super) fn rotate(
        x: Tensor<4>,
        tables: &[Tensor<4>; 2],
        pairs: Pairs,
    ) -> ControlFlow<Tensor<4>, Tensor<4>> {
        let (shape, dtype) = (x.dims(), x.dtype());
        let [_, s, heads, width] = shape;
        let [sequences, _, _, half] = tables[0].dims();
        let [Break(cos), Break(sin)] = tables.each_ref().map(|table| on_host(table.clone())) else {
            return Continue(x);
        };
        let values = match on_host(x) {
            Break(values) => values,
            Continue(x) => return Continue(x),
        };
        let rotation = Rotation {
            tables: [cos.storage(), sin.storage()],
            tokens: sequences * s,
            half,
            heads: [heads, width],
            at: pairs.at,
            interleaved: pairs.interleaved,
        };
        let y = fused::rotate(values.storage(), &rotation);
        Break(tensor(y, shape, dtype))
    }
}
