//! The register tile: [`STRIP`] rows by two registers.

use super::STRIP;
use cubecl::prelude::*;

/// How far apart are a row and a step on the left, and a step on the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Steps {
    pub(super) row: usize,
    pub(super) left: usize,
    pub(super) right: usize,
}

/// sums += left · right: [`STRIP`] rows of scalars from `left_at` by two registers from `right_at`, for each of `count` steps. Where `careful`, a factor of 0 on the left makes a product of 0
/// whatever is on the right: a pair that isn't seen gives nothing of a NaN.
#[cube]
pub(super) fn multiply<N: Size>(
    sums: &mut Array<Vector<f32, N>>,
    left: &[Vector<f32, Const<1>>],
    right: &[Vector<f32, N>],
    left_at: usize,
    right_at: usize,
    count: usize,
    careful: bool,
    #[comptime] steps: Steps,
) {
    let (row, across, down) = comptime!((steps.row, steps.left, steps.right));
    if careful {
        let zero = Vector::<f32, N>::new(0.0f32);
        for step in 0..count {
            let first = right[right_at + step * down];
            let second = right[right_at + step * down + 1];
            #[unroll]
            for i in 0..comptime!(STRIP) {
                let a = left[left_at + i * row + step * across].extract(0usize);
                let a = Vector::<f32, N>::new(a);
                let none = a.equal(&zero);
                sums[2 * i] = fma(a, select_many(none, zero, first), sums[2 * i]);
                sums[2 * i + 1] = fma(a, select_many(none, zero, second), sums[2 * i + 1]);
            }
        }
    } else {
        for step in 0..count {
            let first = right[right_at + step * down];
            let second = right[right_at + step * down + 1];
            #[unroll]
            for i in 0..comptime!(STRIP) {
                let a = left[left_at + i * row + step * across].extract(0usize);
                let a = Vector::<f32, N>::new(a);
                sums[2 * i] = fma(a, first, sums[2 * i]);
                sums[2 * i + 1] = fma(a, second, sums[2 * i + 1]);
            }
        }
    }
}

/// The sums of [`add_product`]: rows, f32s of a row, and the strides on the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sums {
    pub(super) rows: usize,
    pub(super) padded: usize,
    pub(super) row: usize,
    pub(super) step: usize,
}

/// sums\[rows\] += left · right, by strips of rows; sums begin at `sums_at`.
#[cube]
pub(super) fn add_product<N: Size>(
    scratch: &mut [Vector<f32, Const<1>>],
    right: &[Vector<f32, N>],
    sums_at: usize,
    left_at: usize,
    right_at: usize,
    count: usize,
    careful: bool,
    #[comptime] of: Sums,
) {
    let width = N::value();
    let across = comptime!(of.padded / width);
    for strip in 0..comptime!(of.rows.div_ceil(STRIP)) {
        for pair in 0..comptime!(across / 2) {
            let to = sums_at / width + strip * comptime!(STRIP * across) + 2 * pair;
            let mut sums = Array::<Vector<f32, N>>::new(comptime!(2 * STRIP));
            let view = scratch.with_vector_size_mut::<N>();
            #[unroll]
            for i in 0..comptime!(STRIP) {
                sums[2 * i] = view[to + i * across];
                sums[2 * i + 1] = view[to + i * across + 1];
            }
            multiply::<N>(
                &mut sums,
                scratch.with_vector_size::<Const<1>>(),
                right,
                left_at + strip * comptime!(STRIP * of.row),
                right_at + 2 * pair,
                count,
                careful,
                comptime!(Steps {
                    row: of.row,
                    left: of.step,
                    right: across
                }),
            );
            let view = scratch.with_vector_size_mut::<N>();
            #[unroll]
            for i in 0..comptime!(STRIP) {
                view[to + i * across] = sums[2 * i];
                view[to + i * across + 1] = sums[2 * i + 1];
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
