//! The product of a block's rows.

use crate::custom::values::pad_end;
use crate::stablehlo::{Along, Builder, DotDims, Value};
use moebius_pjrt::ElementType::F32;

/// A block's rows \[B,k\] times a matrix, f32 \[B,n\]; `dims` says which way the matrix lies. The matrix stands left and
/// the rows are columns right of it, for on processors XLA's products of a few rows and a large matrix the other way round
/// take twice as long (84 and 158 GFLOP/s for 144 rows of 512 with 2048 × 512 on two Zen 4 cores); without the barrier XLA
/// would turn them back. A single column gets one of zeros beside it: XLA makes the product of a matrix and a vector part
/// of the loops around it, by what these are, and sums in another order there.
pub(in crate::custom) fn product(b: &Builder, rows: Value, matrix: Value, dims: &DotDims) -> Value {
    let columns = 1 - dims.rhs_contract[0];
    let single = b.shape(matrix)[columns] == 1;
    let zero = b.scalar(0.0, b.element(matrix));
    let matrix = pad_end(b, matrix, zero, columns, usize::from(single));
    let turned = DotDims::batched(0, dims.rhs_contract[0], dims.lhs_contract[0]);
    let product = b.barrier(b.dot(matrix, rows, &turned, F32));
    let product = b.transpose(product, &[1, 0]);
    if single {
        b.slice_dim(product, 1, 0..1)
    } else {
        product
    }
}

/// rows · Wᵀ + bias in f32.
pub(in crate::custom) fn affine(b: &Builder, rows: Value, w: Value, bias: Option<Value>) -> Value {
    let sums = product(b, rows, w, &DotDims::matmul_transposed(0));
    match bias {
        Some(bias) => b.add(sums, Along(b.convert(bias, F32), [1])),
        None => sums,
    }
}
