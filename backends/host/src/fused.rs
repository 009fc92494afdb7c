//! What other devices' compilers make one kernel of, in one pass over f32s.

use rayon::prelude::*;

/// Values from which on the work is shared by all threads.
const MANY: usize = 1 << 15;
/// Sums that run side by side.
const SUMS: usize = 16;

/// `f` of each row of so many values and the row of the result.
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

/// x / √(mean(x²) + ε) · γ of rows of as many values as γ has.
pub fn rms_norm(x: &[f32], gamma: &[f32], epsilon: f32) -> Vec<f32> {
    let width = gamma.len();
    each(x, width, |_, x, y| {
        let factor = 1.0 / (squares(x) / width as f32 + epsilon).sqrt();
        for ((y, x), gamma) in y.iter_mut().zip(x).zip(gamma) {
            *y = x * factor * gamma;
        }
    })
}

/// Σ x².
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

/// Which elements of heads are turned in pairs, and how far.
#[derive(Clone, Copy, Debug)]
pub struct Rotation<'a> {
    /// Cosines and sines \[tokens, half\].
    pub tables: [&'a [f32]; 2],
    /// Tokens that have angles: those of x begin again after so many.
    pub tokens: usize,
    /// Pairs of a head.
    pub half: usize,
    /// Heads of a token, and elements of a head.
    pub heads: [usize; 2],
    /// The first element that is turned.
    pub at: usize,
    /// Pairs are neighbours; otherwise element i and the one half of the turned ones further on.
    pub interleaved: bool,
}

/// The pairs of x \[…, heads, width\], turned.
pub fn rotate(x: &[f32], rotation: &Rotation<'_>) -> Vec<f32> {
    let (half, [heads, width]) = (rotation.half, rotation.heads);
    each(x, width, |row, x, y| {
        let angles = row / heads % rotation.tokens * half;
        let angles = rotation.tables.map(|table| &table[angles..][..half]);
        turn(x, y, angles, rotation);
    })
}

/// The pairs of a head, turned.
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
