//! Operations that the compilers of other devices fuse into one kernel, computed in one pass over f32 values.

use rayon::prelude::*;

/// The least number of values for which threads share the work.
const MANY: usize = 1 << 15;
/// The number of parallel partial sums.
const SUMS: usize = 16;

/// Calls `f` for each row of `width` values with its number and the row of the result.
fn each(x: &[f32], width: usize, f: impl Fn(usize, &[f32], &mut [f32]) + Sync) -> Vec<f32> {
    let mut y = vec![0.0; x.len()];
    if width == 0 {
        return y;
    }
    if x.len() < MANY {
        let rows = x.chunks_exact(width).zip(y.chunks_exact_mut(width));
        rows.enumerate().for_each(|(row, (x, y))| f(row, x, y));
    } else {
        let rows = x.par_chunks_exact(width).zip(y.par_chunks_exact_mut(width));
        let rows = rows.with_min_len((MANY / 4).div_ceil(width));
        rows.enumerate().for_each(|(row, (x, y))| f(row, x, y));
    }
    y
}

/// Computes x / √(mean(x²) + ε) · γ for rows as long as γ.
pub fn rms_norm(x: &[f32], gamma: &[f32], epsilon: f32) -> Vec<f32> {
    let width = gamma.len();
    each(x, width, |_, x, y| {
        let factor = 1.0 / (squares(x) / width as f32 + epsilon).sqrt();
        for ((y, x), gamma) in y.iter_mut().zip(x).zip(gamma) {
            *y = x * factor * gamma;
        }
    })
}

/// Computes Σ x².
fn squares(x: &[f32]) -> f32 {
    let mut sums = [0.0; SUMS];
    let (whole, rest) = x.as_chunks::<SUMS>();
    for x in whole {
        for (sum, x) in sums.iter_mut().zip(x) {
            *sum += x * x;
        }
    }
    let rest: f32 = rest.iter().map(|x| x * x).sum();
    sums.iter().sum::<f32>() + rest
}

/// A rotation of pairs of elements of heads: which elements, and the angles.
#[derive(Clone, Copy, Debug)]
pub struct Rotation<'a> {
    /// Cosines and sines of the angles, \[tokens, half\] each.
    pub tables: [&'a [f32]; 2],
    /// The number of tokens with angles; after as many tokens of x, the angles begin again.
    pub tokens: usize,
    /// The number of pairs in a head.
    pub half: usize,
    /// The number of heads of a token, and of elements in a head.
    pub heads: [usize; 2],
    /// The index of the first rotated element.
    pub at: usize,
    /// Whether the elements of a pair are neighbours; otherwise element i is paired with the element half of the rotated width after it.
    pub interleaved: bool,
}

/// Rotates the pairs of x \[…, heads, width\].
pub fn rotate(x: &[f32], rotation: &Rotation<'_>) -> Vec<f32> {
    let (half, [heads, width]) = (rotation.half, rotation.heads);
    each(x, width, |row, x, y| {
        let angles = row / heads % rotation.tokens * half;
        let angles = rotation.tables.map(|table| &table[angles..][..half]);
        turn(x, y, angles, rotation);
    })
}

/// Rotates the pairs of one head.
fn turn(x: &[f32], y: &mut [f32], [cos, sin]: [&[f32]; 2], pairs: &Rotation<'_>) {
    let (at, half) = (pairs.at, cos.len());
    let end = at + 2 * half;
    y[..at].copy_from_slice(&x[..at]);
    y[end..].copy_from_slice(&x[end..]);
    let (low, high) = y[at..end].split_at_mut(half);
    let [first, next, step] = if pairs.interleaved {
        [at, at + 1, 2]
    } else {
        [at, at + half, 1]
    };
    let left = x[first..].iter().step_by(step);
    let both = left.zip(x[next..].iter().step_by(step));
    let angles = cos.iter().zip(sin);
    for (((low, high), (left, right)), (cos, sin)) in low.iter_mut().zip(high).zip(both).zip(angles)
    {
        *low = left * cos - right * sin;
        *high = right * cos + left * sin;
    }
}
