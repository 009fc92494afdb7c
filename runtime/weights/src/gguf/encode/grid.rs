//! Grids of evenly spaced values, and the search for the one that lies nearest to some values.

use half::f16;

/// Values that are summed side by side, so that the compiler can use vector instructions; all groups of codes are a multiple.
const LANES: usize = 8;

/// Sum of 1.5 · 2²³ and a number below 2²² keeps no digits behind the point: the addition rounds them, to the even neighbour of two.
const ROUNDING: f32 = 12_582_912.0;

/// The whole number nearest to a value of less than 2²² either way; of two that are equally near, the even one.
pub(super) fn nearest(value: f32) -> f32 {
    (value + ROUNDING) - ROUNDING
}

/// The largest error of rounding a number of less than 2⁻¹⁴ to F16.
pub(super) const SUBNORMAL: f32 = 1.0 / (1_u32 << 25) as f32;

/// The number nearest to `number` that F16 has; of two that are equally near, the one whose last bit is 0.
pub(super) fn half(number: f32) -> f32 {
    f16::from_f32(number).to_f32()
}

/// How far decoded values are from the values that were encoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Distance {
    /// Sum of the squares of the differences.
    pub(super) squares: f32,
    /// The largest difference.
    pub(super) worst: f32,
}

impl Distance {
    /// Whether this is better than `other`: the largest difference is less far above `limit`, or as far and the sum of squares is smaller.
    pub(super) fn is_better(self, other: Self, limit: f32) -> bool {
        let [own, others] = [self, other].map(|of| (of.worst - limit).max(0.0));
        own < others || (own == others && self.squares < other.squares)
    }

    /// The distance of both together.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            squares: self.squares + other.squares,
            worst: self.worst.max(other.worst),
        }
    }

    /// The distance between nothing and nothing.
    pub(super) const NONE: Self = Self {
        squares: 0.0,
        worst: 0.0,
    };
}

/// The values that codes may stand for: scale · code + offset, with whole codes from `least` to `most`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) scale: f32,
    pub(super) offset: f32,
    pub(super) least: f32,
    pub(super) most: f32,
}

/// What the offset of a grid may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Offset {
    /// 0: the format has none.
    None,
    /// 0 or less: the format stores a minimum without a sign.
    Below,
    /// Any number.
    Any,
}

impl Grid {
    /// 1 / scale, or 0 for a scale that is 0 or too small to divide by, with which all codes are 0 or the nearest to it.
    fn inverse(self) -> f32 {
        if self.scale.is_normal() {
            self.scale.recip()
        } else {
            0.0
        }
    }

    fn code(self, value: f32, inverse: f32) -> f32 {
        let code = (value - self.offset) * inverse;
        nearest(code.max(self.least).min(self.most))
    }

    /// The code nearest to each value.
    pub(super) fn codes<const N: usize>(self, values: &[f32; N]) -> [f32; N] {
        let inverse = self.inverse();
        values.map(|value| self.code(value, inverse))
    }

    /// How far the values are from those of their codes, which are computed as the decoder computes them.
    pub(super) fn distance(self, values: &[f32]) -> Distance {
        let inverse = self.inverse();
        let (mut squares, mut worst) = ([0.0_f32; LANES], [0.0_f32; LANES]);
        for values in values.as_chunks::<LANES>().0 {
            for lane in 0..LANES {
                let decoded = self.scale * self.code(values[lane], inverse) + self.offset;
                let difference = values[lane] - decoded;
                squares[lane] += difference * difference;
                worst[lane] = worst[lane].max(difference.abs());
            }
        }
        Distance {
            squares: squares.iter().sum(),
            worst: worst.into_iter().fold(0.0, f32::max),
        }
    }

    /// The grid with the scale and the offset of least squares for the codes that the values have in this grid.
    pub(super) fn fitted(self, values: &[f32], offset: Offset) -> Self {
        let inverse = self.inverse();
        let mut sums = [[0.0_f32; LANES]; 4];
        for values in values.as_chunks::<LANES>().0 {
            for lane in 0..LANES {
                let value = values[lane];
                let code = self.code(value, inverse);
                sums[0][lane] += value;
                sums[1][lane] += code;
                sums[2][lane] += value * code;
                sums[3][lane] += code * code;
            }
        }
        let [all, codes, products, squares] = sums.map(|lanes| lanes.iter().sum::<f32>());
        let count = values.len() as f32;
        let spread = count * squares - codes * codes;
        if offset != Offset::None && spread > 0.0 {
            let scale = (count * products - all * codes) / spread;
            let low = (all - scale * codes) / count;
            if offset == Offset::Any || low <= 0.0 {
                return Self {
                    scale,
                    offset: low,
                    ..self
                };
            }
        }
        if squares > 0.0 && offset != Offset::Any {
            let scale = products / squares;
            return Self {
                scale,
                offset: 0.0,
                ..self
            };
        }
        self
    }

    /// The grid of the least squares among those that the `trials` lead to, whose largest difference is at most `limit`; `plain` where none
    /// is better.
    pub(super) fn search(
        plain: Self,
        trials: impl Iterator<Item = Self>,
        values: &[f32],
        (offset, limit): (Offset, f32),
    ) -> Self {
        let mut best = (plain, plain.distance(values));
        for trial in trials {
            let grid = trial.fitted(values, offset);
            let distance = grid.distance(values);
            if distance.is_better(best.1, limit) {
                best = (grid, distance);
            }
        }
        // The best grid has other codes than the one that it was fitted to.
        for _ in 0..REPEATS {
            let grid = best.0.fitted(values, offset);
            let distance = grid.distance(values);
            if !distance.is_better(best.1, limit) {
                break;
            }
            best = (grid, distance);
        }
        best.0
    }
}

/// Times that the best grid of a search is fitted again.
const REPEATS: usize = 3;
/// Steps to either side of the plain scale that a search tries, and the share of a code that a step moves the largest code by.
const STEPS: i16 = 10;
const STEP: f32 = 0.1;

/// How far the trials move the largest code.
fn moves() -> impl Iterator<Item = f32> {
    (-STEPS..=STEPS).map(|step| f32::from(step) * STEP)
}

/// The value with the largest magnitude; 0 of none.
pub(super) fn farthest(values: &[f32]) -> f32 {
    let farther = |far: f32, &value: &f32| {
        if value.abs() > far.abs() { value } else { far }
    };
    values.iter().fold(0.0, farther)
}

/// The grid without an offset that holds all of the values: the largest magnitude has the code `most`.
pub(super) fn plain_symmetric(values: &[f32], [least, most]: [f32; 2]) -> Grid {
    Grid {
        scale: farthest(values).abs() / most,
        offset: 0.0,
        least,
        most,
    }
}

/// The best grid without an offset. Its scale may be negative, so that the value with the largest magnitude has the least code, of which
/// there is one more.
pub(super) fn symmetric(values: &[f32], [least, most]: [f32; 2]) -> Grid {
    let plain = plain_symmetric(values, [least, most]);
    let far = farthest(values);
    // Of as many codes on either side the other sign gives the same values.
    let ends = [least, most].into_iter().filter(|&end| end != -most);
    let trials = ends.flat_map(|end| {
        moves().map(move |by| Grid {
            scale: far / (end + by),
            ..plain
        })
    });
    Grid::search(plain, trials, values, (Offset::None, plain.scale))
}

/// The grid with codes from 0 to `most` that holds all of the values, and 0 if its offset must not be above.
pub(super) fn plain_affine(values: &[f32], most: f32, offset: Offset) -> Grid {
    let mut range = [f32::INFINITY, f32::NEG_INFINITY];
    for &value in values {
        range = [range[0].min(value), range[1].max(value)];
    }
    let [low, high] = match offset {
        Offset::Any => range,
        _ => [range[0].min(0.0), range[1].max(0.0)],
    };
    Grid {
        scale: (high - low) / most,
        offset: low,
        least: 0.0,
        most,
    }
}

/// The best grid with codes from 0 to `most`.
pub(super) fn affine(values: &[f32], most: f32, offset: Offset) -> Grid {
    let plain = plain_affine(values, most, offset);
    let trials = moves().map(|by| Grid {
        scale: plain.scale * most / (most + by),
        ..plain
    });
    Grid::search(plain, trials, values, (offset, plain.scale))
}
