//! The register tile: [`STRIP`] rows by two registers.

use super::STRIP;
use cubecl::prelude::*;

/// sums += left · right: [`STRIP`] rows of scalars by two registers for each of `steps` steps. `strides` are those of a row
/// and of a step on the left, and of a step on the right. Where `careful`, a factor of 0 on the left makes a product of 0
/// whatever is on the right: a pair that isn't seen gives nothing of a NaN.
#[cube]
pub(super) fn multiply<N: Size>(
    sums: &mut Array<Vector<f32, N>>,
    left: &[Vector<f32, Const<1>>],
    right: &[Vector<f32, N>],
    at: (usize, usize),
    steps: usize,
    careful: bool,
    #[comptime] strides: (usize, usize, usize),
) {
    let (row, across, down) = comptime!(strides);
    if careful {
        let zero = Vector::<f32, N>::new(0.0f32);
        for step in 0..steps {
            let first = right[at.1 + step * down];
            let second = right[at.1 + step * down + 1];
            #[unroll]
            for i in 0..comptime!(STRIP) {
                let a = left[at.0 + i * row + step * across].extract(0usize);
                let a = Vector::<f32, N>::new(a);
                let none = a.equal(&zero);
                sums[2 * i] = fma(a, select_many(none, zero, first), sums[2 * i]);
                sums[2 * i + 1] = fma(a, select_many(none, zero, second), sums[2 * i + 1]);
            }
        }
    } else {
        for step in 0..steps {
            let first = right[at.1 + step * down];
            let second = right[at.1 + step * down + 1];
            #[unroll]
            for i in 0..comptime!(STRIP) {
                let a = left[at.0 + i * row + step * across].extract(0usize);
                let a = Vector::<f32, N>::new(a);
                sums[2 * i] = fma(a, first, sums[2 * i]);
                sums[2 * i + 1] = fma(a, second, sums[2 * i + 1]);
            }
        }
    }
}

/// Whether any of `count` registers is infinite or NaN.
#[cube]
pub(super) fn any_infinite<N: Size>(from: &[Vector<f32, N>], first: usize, count: usize) -> bool {
    let zero = Vector::<f32, N>::new(0.0f32);
    let mut sum = zero;
    for i in 0..count {
        sum = fma(from[first + i], zero, sum);
    }
    sum.vector_sum() != 0.0f32
}
