//! Scales by the error that they leave: which are tried, and the search on the host.

use crate::fp8::Fp8Format;

/// Scales that are tried.
pub const LEAST_SQUARES_TRIED: usize = 16;

/// What the scale of the largest magnitude is multiplied by for the scales that are tried, itself the first: 2^(i/16). A whole octave more is
/// the same codes with another exponent, but for those that lose bits at the end of their range; smaller scales saturate, which never paid
/// for 32 values or more of SmolLM2's weights.
pub fn least_squares_factors() -> [f32; LEAST_SQUARES_TRIED] {
    std::array::from_fn(|i| (i as f64 / LEAST_SQUARES_TRIED as f64).exp2() as f32)
}

/// The search for scales, of values in one format.
pub(super) struct LeastSquares {
    grid: Grid,
    factors: [f32; LEAST_SQUARES_TRIED],
}

impl LeastSquares {
    pub(super) fn new(format: Fp8Format) -> Self {
        Self {
            grid: Grid::of(format),
            factors: least_squares_factors(),
        }
    }

    /// Chooses among the scales that are tried for blocks of a matrix, given the first of them: of each block the one with the least
    /// Σ (code · scale − x)², and the first of several. A block with a value that isn't finite keeps its first.
    ///
    /// `strip` has the values of one row of blocks, `width` to a row, each block `columns` wide.
    pub(super) fn choose(&self, scales: &mut [f32], strip: &[f32], [width, columns]: [usize; 2]) {
        let tried = |first: f32, i: usize| (first * self.factors[i]).min(f32::MAX);
        let mut errors = vec![[0.0f64; LEAST_SQUARES_TRIED]; scales.len()];
        for row in strip.chunks(width) {
            let blocks = row.chunks(columns);
            for ((block, errors), &first) in blocks.zip(&mut errors).zip(scales.iter()) {
                for (i, error) in errors.iter_mut().enumerate() {
                    *error += f64::from(self.grid.squared_errors(block, tried(first, i)));
                }
            }
        }
        for (scale, errors) in scales.iter_mut().zip(errors) {
            let mut best = 0;
            for i in 1..LEAST_SQUARES_TRIED {
                // Not so where either is NaN.
                if errors[i] < errors[best] {
                    best = i;
                }
            }
            *scale = tried(*scale, best);
        }
    }
}

/// The values that a format has, as bits of f32: what is below its mantissa, and what its subnormal values are apart.
#[derive(Clone, Copy, Debug)]
struct Grid {
    /// Bits of an f32 that the mantissa lacks.
    below: u32,
    smallest_normal: f32,
    /// 1.5 · 2²³ subnormal steps: what is added to it is rounded to them.
    rounder: f32,
}

impl Grid {
    fn of(format: Fp8Format) -> Self {
        let below = f32::MANTISSA_DIGITS - 1 - format.mantissa_bits();
        let smallest_normal = (1.0 - f64::from(format.bias())).exp2();
        let step = smallest_normal / f64::from(format.mantissa_bits()).exp2();
        Self {
            below,
            smallest_normal: smallest_normal as f32,
            rounder: (1.5 * 23f64.exp2() * step) as f32,
        }
    }

    /// The nearest value of the format, ties to even, without its upper end: no magnitude is beyond it. Written without branches, so that it is
    /// computed for many values at once.
    fn nearest(self, x: f32) -> f32 {
        let bits = x.to_bits();
        let odd = (bits >> self.below) & 1;
        let half = (1 << (self.below - 1)) - 1;
        let normal = f32::from_bits((bits.wrapping_add(half + odd)) & !((1 << self.below) - 1));
        let subnormal = (x + self.rounder) - self.rounder;
        if x.abs() < self.smallest_normal {
            subnormal
        } else {
            normal
        }
    }

    /// Σ (code · scale − x)² of part of a block.
    fn squared_errors(self, block: &[f32], scale: f32) -> f32 {
        let mut sums = [0.0f32; LANES];
        let (whole, rest) = block.as_chunks::<LANES>();
        for values in whole {
            for (sum, x) in sums.iter_mut().zip(values) {
                *sum += self.squared_error(*x, scale);
            }
        }
        let rest: f32 = rest.iter().map(|x| self.squared_error(*x, scale)).sum();
        sums.iter().sum::<f32>() + rest
    }

    fn squared_error(self, x: f32, scale: f32) -> f32 {
        let apart = self.nearest(x / scale) * scale - x;
        apart * apart
    }
}

/// Values that are summed side by side.
const LANES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fp8::{Overflow, decode_host, encode_host};

    #[test]
    fn nearest_is_what_codes_decode_to() {
        for (format, largest) in [(Fp8Format::E4M3, 448.0f32), (Fp8Format::E5M2, 57344.0)] {
            let grid = Grid::of(format);
            for bits in (0..largest.to_bits()).step_by(997) {
                for x in [f32::from_bits(bits), -f32::from_bits(bits)] {
                    let code = encode_host(x, format, Overflow::Saturate);
                    let want = decode_host(code, format);
                    assert_eq!(grid.nearest(x), want, "{x:e} in {format:?}");
                }
            }
        }
    }
}
