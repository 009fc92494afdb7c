//! One head of one row in f32, as vectors in a unit's private memory.

use crate::rounds::looped;
use cubecl::prelude::*;

/// The largest number of vectors for which loops are unrolled: drivers take long to compile hundreds of copies.
const MOST_UNROLLED: usize = 32;

/// Rounds of one of this module's loops over a head of `vectors` vectors.
pub(crate) const fn rounds(vectors: usize) -> usize {
    if vectors <= MOST_UNROLLED {
        0
    } else {
        looped(vectors, 0)
    }
}

/// Loads a head from vector `at` on, times `factor`.
#[cube]
pub(crate) fn load_head<F: Float, N: Size>(
    from: &[Vector<F, N>],
    at: usize,
    #[comptime] factor: f32,
    #[comptime] vectors: usize,
) -> Array<Vector<f32, N>> {
    let mut head = Array::<Vector<f32, N>>::new(vectors);
    #[unroll(vectors <= MOST_UNROLLED)]
    for i in 0..vectors {
        head[i] = Vector::<f32, N>::cast_from(from[at + i]) * Vector::new(factor);
    }
    head
}

/// The dot product ⟨head, from\[at..\]⟩, summed lane by lane and then over the lanes.
#[cube]
pub(crate) fn dot<F: Float, N: Size>(
    head: &Array<Vector<f32, N>>,
    from: &[Vector<F, N>],
    at: usize,
    #[comptime] vectors: usize,
) -> f32 {
    let mut sum = Vector::<f32, N>::new(0.0f32);
    #[unroll(vectors <= MOST_UNROLLED)]
    for i in 0..vectors {
        sum = fma(head[i], Vector::<f32, N>::cast_from(from[at + i]), sum);
    }
    sum.vector_sum()
}

/// sums += factor · from\[at..\].
#[cube]
pub(crate) fn accumulate<F: Float, N: Size>(
    sums: &mut Array<Vector<f32, N>>,
    factor: f32,
    from: &[Vector<F, N>],
    at: usize,
    #[comptime] vectors: usize,
) {
    let factor = Vector::<f32, N>::new(factor);
    #[unroll(vectors <= MOST_UNROLLED)]
    for i in 0..vectors {
        sums[i] = fma(factor, Vector::<f32, N>::cast_from(from[at + i]), sums[i]);
    }
}

/// to\[at..\] = sums · factor.
#[cube]
pub(crate) fn store_head<F: Float, N: Size>(
    sums: &Array<Vector<f32, N>>,
    factor: f32,
    to: &mut [Vector<F, N>],
    at: usize,
    #[comptime] vectors: usize,
) {
    #[unroll(vectors <= MOST_UNROLLED)]
    for i in 0..vectors {
        to[at + i] = Vector::cast_from(sums[i] * Vector::<f32, N>::new(factor));
    }
}

/// A head of zeros.
#[cube]
pub(crate) fn zero_head<N: Size>(#[comptime] vectors: usize) -> Array<Vector<f32, N>> {
    let mut head = Array::<Vector<f32, N>>::new(vectors);
    #[unroll(vectors <= MOST_UNROLLED)]
    for i in 0..vectors {
        head[i] = Vector::new(0.0f32);
    }
    head
}

/// head · factor.
#[cube]
pub(crate) fn scale_head<N: Size>(
    head: &mut Array<Vector<f32, N>>,
    factor: f32,
    #[comptime] vectors: usize,
) {
    #[unroll(vectors <= MOST_UNROLLED)]
    for i in 0..vectors {
        head[i] *= Vector::<f32, N>::new(factor);
    }
}
