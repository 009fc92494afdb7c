//! Encoding of blocks of 256 values in groups, whose scales are codes themselves: Q4_K, Q5_K and Q6_K.
//!
//! Each group gets the grid of the least squares. The scales of the groups are then rounded to what the format can hold of them, where each
//! group takes the codes of scale and minimum that leave the least squares; the factors that all groups share are fitted to these codes,
//! and the codes chosen again, as long as the squares get fewer.

use std::array::from_fn;

use half::f16;
use moebius_ops::blocks::BlockFormat;

use super::grid::{
    Distance, Grid, Offset, SUBNORMAL, affine, farthest, half, nearest, plain_affine,
    plain_symmetric, symmetric,
};

/// Times that shared factors are fitted again.
const REPEATS: usize = 2;
/// Largest code of a scale or a minimum in Q4_K and Q5_K.
const MOST: f32 = 63.0;

/// A block with shared factors: the grids that its groups have, the codes of their scales and minima, and how far the values are from them.
#[derive(Clone, Copy)]
struct Fit<const GROUPS: usize> {
    /// What the codes of scales and those of minima are multiplied by, as the file has them.
    factors: [f32; 2],
    /// The codes of each group's scale and minimum.
    codes: [[f32; 2]; GROUPS],
    grids: [Grid; GROUPS],
    distance: Distance,
}

/// A quotient as a code from `least` to `most`, which is 0 where nothing can be divided.
fn divided(number: f32, by: f32, [least, most]: [f32; 2]) -> f32 {
    if by.is_normal() {
        nearest((number / by).max(least).min(most))
    } else {
        0.0
    }
}

/// A code and its neighbours, or the ends of `least` to `most` in place of what is outside.
fn around(code: f32, [least, most]: [f32; 2]) -> [f32; 3] {
    [code, code - 1.0, code + 1.0].map(|code| code.max(least).min(most))
}

/// The first of the best ones among pairs of codes of scale and minimum, with the grid that these are and the distance of the values from it.
fn nearest_of<const N: usize>(
    pairs: [[f32; 2]; N],
    factors: [f32; 2],
    wanted: Grid,
    (values, limit): (&[f32], f32),
) -> ([f32; 2], Grid, Distance) {
    let scales = pairs.map(|[scale, _]| factors[0] * scale);
    let offsets = pairs.map(|[_, least]| -(factors[1] * least));
    let distances = wanted.distances((&scales, &offsets), values);
    let mut best = 0;
    for at in 1..N {
        if distances[at].is_better(distances[best], limit) {
            best = at;
        }
    }
    let grid = Grid {
        scale: scales[best],
        offset: offsets[best],
        ..wanted
    };
    (pairs[best], grid, distances[best])
}

impl<const GROUPS: usize> Fit<GROUPS> {
    /// Chooses the codes of scales, from `least` to `most`, and of minima for these shared factors. A group's codes are those of its wanted
    /// grid or next to them.
    fn new<const N: usize>(
        parts: &[[f32; N]],
        wanted: &[Grid; GROUPS],
        factors: [f32; 2],
        (range, limit): ([f32; 2], f32),
    ) -> Self {
        let factors = factors.map(half);
        let mut fit = Self {
            factors,
            codes: [[0.0; 2]; GROUPS],
            grids: *wanted,
            distance: Distance::NONE,
        };
        for ((group, values), wanted) in parts.iter().enumerate().zip(wanted) {
            let scale = divided(wanted.scale, factors[0], range);
            let least = divided(-wanted.offset, factors[1], [0.0, MOST]);
            let scales = around(scale, range);
            let (codes, grid, distance) = if factors[1] > 0.0 {
                let minima = around(least, [0.0, MOST]);
                // Those past the last pair fill a vector.
                let pairs: [_; 12] = from_fn(|at| [scales[at / 3 % 3], minima[at % 3]]);
                nearest_of(pairs, factors, *wanted, (values, limit))
            } else {
                let pairs: [_; 4] = from_fn(|at| [scales[at % 3], 0.0]);
                nearest_of(pairs, factors, *wanted, (values, limit))
            };
            fit.codes[group] = codes;
            fit.grids[group] = grid;
            fit.distance = fit.distance.and(distance);
        }
        fit
    }

    /// The shared factors of least squares for the codes of this fit; `None` where these say nothing about the factors, or ask for one
    /// below 0 where the format has no sign.
    fn fitted<const N: usize>(&self, parts: &[[f32; N]]) -> Option<[f32; 2]> {
        // Each value is factors[0] · a − factors[1] · b.
        let [mut aa, mut ab, mut bb, mut xa, mut xb] = [0.0_f64; 5];
        for ((values, grid), [scale, least]) in parts.iter().zip(&self.grids).zip(self.codes) {
            let b = -f64::from(least);
            for (&value, code) in values.iter().zip(grid.codes(values)) {
                let (x, a) = (f64::from(value), f64::from(scale) * f64::from(code));
                aa += a * a;
                ab += a * b;
                bb += b * b;
                xa += x * a;
                xb += x * b;
            }
        }
        let determinant = aa * bb - ab * ab;
        if bb == 0.0 {
            return (aa > 0.0).then_some([(xa / aa) as f32, self.factors[1]]);
        }
        let factors = [
            (xa * bb - xb * ab) / determinant,
            (xb * aa - xa * ab) / determinant,
        ];
        let fits = determinant > 0.0 && factors.iter().all(|factor| *factor > 0.0);
        fits.then_some(factors.map(|factor| factor as f32))
    }

    /// The better of this fit and the one that fitting the shared factors again leads to.
    fn improved<const N: usize>(
        self,
        parts: &[[f32; N]],
        wanted: &[Grid; GROUPS],
        bounds: ([f32; 2], f32),
    ) -> Self {
        let mut best = self;
        for _ in 0..REPEATS {
            let Some(factors) = best.fitted(parts) else {
                break;
            };
            let next = Self::new(parts, wanted, factors, bounds);
            if !next.distance.is_better(best.distance, bounds.1) {
                break;
            }
            best = next;
        }
        best
    }
}

/// The best fit of eight groups with scales and minima. No value is off by more than one step of the widest group, one step of the minima,
/// and the rounding of the shared factors.
fn shifted(values: &[f32; 256], most: f32) -> Fit<8> {
    let parts = values.as_chunks::<32>().0;
    let grids = |of: fn(&[f32], f32, Offset) -> Grid| -> [Grid; 8] {
        from_fn(|group| of(&parts[group], most, Offset::Below))
    };
    let largest = |grids: &[Grid; 8]| {
        grids.iter().fold([0.0_f32; 2], |[scale, least], grid| {
            [scale.max(grid.scale), least.max(-grid.offset)]
        })
    };
    let plain = grids(plain_affine);
    let [scale, least] = largest(&plain);
    let limit = scale + least / MOST + MOST * (most + 1.0) * SUBNORMAL;
    let bounds = ([0.0, MOST], limit);
    let fit = |wanted: &[Grid; 8]| {
        let factors = largest(wanted).map(|largest| largest / MOST);
        Fit::new(parts, wanted, factors, bounds).improved(parts, wanted, bounds)
    };
    within(limit, fit(&grids(affine)), || fit(&plain))
}

/// The best fit of sixteen groups with scales of either sign. No value is off by more than one step of the widest group and the rounding of
/// the shared factor.
fn scaled(values: &[f32; 256]) -> Fit<16> {
    const CODES: [f32; 2] = [-32.0, 31.0];
    const SCALES: [f32; 2] = [-128.0, 127.0];
    let parts = values.as_chunks::<16>().0;
    let grids = |of: fn(&[f32], [f32; 2]) -> Grid| -> [Grid; 16] {
        from_fn(|group| of(&parts[group], CODES))
    };
    let plain = grids(plain_symmetric);
    let scale = plain
        .iter()
        .fold(0.0_f32, |most, grid| most.max(grid.scale));
    let limit = scale + -SCALES[0] * -CODES[0] * SUBNORMAL;
    let bounds = (SCALES, limit);
    let fit = |wanted: &[Grid; 16]| {
        let scales = wanted.map(|grid| grid.scale);
        // The largest scale has the code that a sign has more.
        let factors = [farthest(&scales) / SCALES[0], 0.0];
        Fit::new(parts, wanted, factors, bounds).improved(parts, wanted, bounds)
    };
    within(limit, fit(&grids(symmetric)), || fit(&plain))
}

/// The fit to the best grids if no value is off by more than `limit`, else the better one of this fit and the one to plain grids.
fn within<const GROUPS: usize>(
    limit: f32,
    best: Fit<GROUPS>,
    plain: impl FnOnce() -> Fit<GROUPS>,
) -> Fit<GROUPS> {
    if best.distance.worst <= limit {
        return best;
    }
    let plain = plain();
    if best.distance.is_better(plain.distance, limit) {
        best
    } else {
        plain
    }
}

/// The beginning of a block of Q4_K or Q5_K: the shared factors, and the codes of scales and minima with six bits each. Of the last four
/// groups, the upper two bits lie in the bytes of the first four.
fn head(fit: &Fit<8>) -> [u8; 16] {
    let mut out = [0; 16];
    for (out, factor) in out.as_chunks_mut::<2>().0.iter_mut().zip(fit.factors) {
        *out = f16::from_f32(factor).to_le_bytes();
    }
    let packed = &mut out[4..];
    for (group, codes) in fit.codes.iter().enumerate() {
        let [scale, least] = codes.map(|code| code as u8);
        if group < 4 {
            packed[group] |= scale;
            packed[group + 4] |= least;
        } else {
            packed[group + 4] = scale & 15 | (least & 15) << 4;
            packed[group - 4] |= scale >> 4 << 6;
            packed[group] |= least >> 4 << 6;
        }
    }
    out
}

/// The codes of all values, counted from the least, in the order of the values.
fn codes<const GROUPS: usize, const N: usize>(fit: &Fit<GROUPS>, parts: &[[f32; N]]) -> [u8; 256] {
    let mut out = [0; 256];
    let groups = out.as_chunks_mut::<N>().0.iter_mut().zip(parts);
    for ((out, values), grid) in groups.zip(&fit.grids) {
        *out = grid.codes(values).map(|code| (code - grid.least) as u8);
    }
    out
}

pub(super) fn q4_k(values: &[f32; 256], out: &mut [u8; 144]) {
    let fit = shifted(values, 15.0);
    out[..16].copy_from_slice(&head(&fit));
    let codes = codes(&fit, values.as_chunks::<32>().0);
    BlockFormat::Q4K.layout().put(&codes, out);
}

pub(super) fn q5_k(values: &[f32; 256], out: &mut [u8; 176]) {
    let fit = shifted(values, 31.0);
    out[..16].copy_from_slice(&head(&fit));
    let codes = codes(&fit, values.as_chunks::<32>().0);
    BlockFormat::Q5K.layout().put(&codes, out);
}

pub(super) fn q6_k(values: &[f32; 256], out: &mut [u8; 210]) {
    let fit = scaled(values);
    let codes = codes(&fit, values.as_chunks::<16>().0);
    BlockFormat::Q6K.layout().put(&codes, out);
    for (out, [scale, _]) in out[192..].iter_mut().zip(fit.codes) {
        *out = (scale as i8).cast_unsigned();
    }
    out[208..].copy_from_slice(&f16::from_f32(fit.factors[0]).to_le_bytes());
}
