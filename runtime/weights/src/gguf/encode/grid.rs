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
        // `max` and `min` would take three instructions more, in case a bound is NaN.
        let code = if code > self.least { code } else { self.least };
        nearest(if code < self.most { code } else { self.most })
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
                let far = difference.abs();
                worst[lane] = if far > worst[lane] { far } else { worst[lane] };
            }
        }
        Distance {
            squares: squares.iter().sum(),
            worst: worst.into_iter().fold(0.0, f32::max),
        }
    }

    /// How far the values are from those of their codes with each of some scales and offsets in place of the grid's own.
    pub(super) fn distances<const N: usize>(
        self,
        (scales, offsets): (&[f32; N], &[f32; N]),
        values: &[f32],
    ) -> [Distance; N] {
        let inverses = scales.map(|scale| Self { scale, ..self }.inverse());
        let (mut squares, mut worst) = ([0.0_f32; N], [0.0_f32; N]);
        for &value in values {
            for at in 0..N {
                let offset = offsets[at];
                let code = Self { offset, ..self }.code(value, inverses[at]);
                let difference = value - (scales[at] * code + offset);
                squares[at] += difference * difference;
                let far = difference.abs();
                worst[at] = if far > worst[at] { far } else { worst[at] };
            }
        }
        std::array::from_fn(|at| Distance {
            squares: squares[at],
            worst: worst[at],
        })
    }

    /// The grid with the scale and the offset of least squares for codes with these sums, and how much of the sum of the values' squares the codes
    /// account for. Where they say nothing about a scale, it is this grid, and they account for nothing.
    fn of_sums(self, sums: Sums, offset: Offset) -> (Self, f32) {
        let Sums {
            count,
            all,
            codes,
            products,
            squares,
        } = sums;
        let spread = count * squares - codes * codes;
        if offset != Offset::None && spread > 0.0 {
            let apart = count * products - all * codes;
            let scale = apart / spread;
            let low = (all - scale * codes) / count;
            if offset == Offset::Any || low <= 0.0 {
                let fitted = Self {
                    scale,
                    offset: low,
                    ..self
                };
                return (fitted, (all * all + apart * scale) / count);
            }
        }
        if squares > 0.0 && offset != Offset::Any {
            let scale = products / squares;
            let fitted = Self {
                scale,
                offset: 0.0,
                ..self
            };
            return (fitted, products * scale);
        }
        (self, 0.0)
    }

    /// The sums of these values and of the codes that they have with each of some scales in place of the grid's own.
    fn sums(self, scales: [f32; LANES], values: &[f32]) -> [Sums; LANES] {
        let inverses = scales.map(|scale| Self { scale, ..self }.inverse());
        let mut all = 0.0;
        let [mut codes, mut products, mut squares] = [[0.0_f32; LANES]; 3];
        for &value in values {
            all += value;
            for lane in 0..LANES {
                let code = self.code(value, inverses[lane]);
                codes[lane] += code;
                products[lane] += value * code;
                squares[lane] += code * code;
            }
        }
        std::array::from_fn(|lane| Sums {
            count: values.len() as f32,
            all,
            codes: codes[lane],
            products: products[lane],
            squares: squares[lane],
        })
    }

    /// The grid of least squares for the codes that the values have in this grid.
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
        let [all, codes, products, squares] = sums.map(|lanes| lanes.iter().sum());
        let sums = Sums {
            count: values.len() as f32,
            all,
            codes,
            products,
            squares,
        };
        self.of_sums(sums, offset).0
    }

    /// A grid of few squares whose largest difference is at most `limit`. The codes that account for the most of the values' squares are looked for
    /// among those of this plain grid with each of `scales`; the grid that is fitted to them is fitted again to its own codes as long as that makes it
    /// better. The plain grid, where it is no worse.
    fn searched(
        self,
        scales: &[[f32; LANES]],
        values: &[f32],
        (offset, limit): (Offset, f32),
    ) -> Self {
        let mut found = (self, f32::NEG_INFINITY);
        for scales in scales {
            for sums in self.sums(*scales, values) {
                let next = self.of_sums(sums, offset);
                if next.1 > found.1 {
                    found = next;
                }
            }
        }
        let mut best = (self, self.distance(values));
        let mut next = found.0;
        // The best grid has other codes than the one that it was fitted to.
        for _ in 0..REPEATS {
            let distance = next.distance(values);
            if !distance.is_better(best.1, limit) {
                break;
            }
            best = (next, distance);
            next = next.fitted(values, offset);
        }
        best.0
    }
}

/// Sums over some values, and over their codes.
#[derive(Clone, Copy)]
struct Sums {
    /// The number of values.
    count: f32,
    /// Of the values.
    all: f32,
    /// Of the codes.
    codes: f32,
    /// Of the products of both.
    products: f32,
    /// Of the squares of the codes.
    squares: f32,
}

/// Times that the best grid of a search is fitted again.
const REPEATS: usize = 4;
/// Scales that a search tries, and the share of a code that one moves the largest code further than the one before.
const SCALES: usize = 24;
const STEP: f32 = 0.1;

/// How far scale `number` of a search moves the largest code.
fn moved(number: usize) -> f32 {
    (number as f32 - (SCALES / 2) as f32) * STEP
}

/// The scales of a search by what the largest code has to be.
fn scales(of: impl Fn(f32) -> f32) -> [[f32; LANES]; SCALES / LANES] {
    std::array::from_fn(|some| std::array::from_fn(|lane| of(moved(LANES * some + lane))))
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
    let [low, high] = [least, most].map(|end| scales(|by| far / (end + by)));
    let all = [low, high];
    plain.searched(all.as_flattened(), values, (Offset::None, plain.scale))
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
    let scales = scales(|by| plain.scale * most / (most + by));
    plain.searched(&scales, values, (offset, plain.scale))
}
