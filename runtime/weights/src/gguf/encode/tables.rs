//! Encoding of blocks whose codes index a table of values: IQ4_NL and MXFP4.

use half::f16;
use moebius_ops::blocks::{BlockFormat, TWICE_E2M1, UNEVEN, half_of_exponent};

use super::grid::{Distance, SUBNORMAL, farthest, half};

/// Steps to either side of the plain scale of IQ4_NL that a search tries; a step moves the end of the table by 1.
const STEPS: i16 = 8;
/// Times that the best scale is fitted.
const REPEATS: usize = 4;
/// Values that are looked up side by side.
const LANES: usize = 8;

/// The middles between neighbouring values of a table, of which the first `N` + 1 ascend.
const fn middles<const N: usize>(table: &[i8; 16]) -> [f32; N] {
    let mut out = [0.0; N];
    let mut at = 0;
    while at < N {
        out[at] = (table[at] as f32 + table[at + 1] as f32) / 2.0;
        at += 1;
    }
    out
}

/// The steps between neighbouring values of a table.
const fn steps<const N: usize>(table: &[i8; 16]) -> [f32; N] {
    let mut out = [0.0; N];
    let mut at = 0;
    while at < N {
        out[at] = table[at + 1] as f32 - table[at] as f32;
        at += 1;
    }
    out
}

const OF_UNEVEN: [f32; 15] = middles(&UNEVEN);
const STEPS_OF_UNEVEN: [f32; 15] = steps(&UNEVEN);
const OF_E2M1: [f32; 7] = middles(&TWICE_E2M1);

/// The code of the value of [`UNEVEN`] nearest to `value`; of two that are equally near, the lower one.
pub(super) fn uneven(value: f32) -> u8 {
    let below = OF_UNEVEN.map(|middle| u8::from(value > middle));
    below.iter().sum()
}

/// The code of the value of [`TWICE_E2M1`] nearest to `value`; of two that are equally near, the one nearer to 0.
pub(super) fn e2m1(value: f32) -> u8 {
    let below = OF_E2M1.map(|middle| u8::from(value.abs() > middle));
    let code: u8 = below.iter().sum();
    // The code of −0 means 0, too, and no encoder of other programs writes it.
    if value < 0.0 && code > 0 {
        code | 8
    } else {
        code
    }
}

/// 1 / scale, or 0 for a scale that nothing can be divided by.
fn inverse(scale: f32) -> f32 {
    if scale.is_normal() {
        scale.recip()
    } else {
        0.0
    }
}

/// A table of values, and the function that gives the code of the nearest one.
#[derive(Clone, Copy)]
struct Table {
    values: &'static [i8; 16],
    code: fn(f32) -> u8,
}

impl Table {
    /// The codes of the values that the table times `scale` has nearest; those of 0 for a scale that nothing can be divided by.
    fn codes(self, values: &[f32; 32], scale: f32) -> [u8; 32] {
        let inverse = inverse(scale);
        values.map(|value| (self.code)(value * inverse))
    }

    /// How far the values are from those of their codes.
    fn distance(self, values: &[f32; 32], scale: f32) -> Distance {
        let codes = self.codes(values, scale);
        let differences = values.iter().zip(codes).map(|(value, code)| {
            let decoded = scale * f32::from(self.values[usize::from(code)]);
            (value - decoded).abs()
        });
        differences.fold(Distance::NONE, |all, difference| {
            all.and(Distance {
                squares: difference * difference,
                worst: difference,
            })
        })
    }

    /// The scale of least squares for the codes that the values have at `scale`.
    fn fitted(self, values: &[f32; 32], scale: f32) -> f32 {
        let codes = self.codes(values, scale);
        let mut sums = [0.0_f32; 2];
        for (value, code) in values.iter().zip(codes) {
            let of_code = f32::from(self.values[usize::from(code)]);
            sums[0] += value * of_code;
            sums[1] += of_code * of_code;
        }
        if sums[1] > 0.0 {
            sums[0] / sums[1]
        } else {
            scale
        }
    }
}

/// The values of [`UNEVEN`] nearest to these, as [`uneven`] chooses them: a sum of its steps, without a look into memory for each.
fn levels(values: [f32; LANES]) -> [f32; LANES] {
    let mut levels = [f32::from(UNEVEN[0]); LANES];
    for (middle, step) in OF_UNEVEN.iter().zip(STEPS_OF_UNEVEN) {
        for (level, value) in levels.iter_mut().zip(values) {
            *level += if value > *middle { step } else { 0.0 };
        }
    }
    levels
}

/// How much of the sum of the values' squares their nearest values of [`UNEVEN`] times `scale` account for, if their scale is fitted to them.
fn accounted(values: &[f32; 32], scale: f32) -> f32 {
    let inverse = inverse(scale);
    let [mut products, mut squares] = [[0.0_f32; LANES]; 2];
    for values in values.as_chunks().0 {
        let levels = levels(values.map(|value| value * inverse));
        for lane in 0..LANES {
            products[lane] += values[lane] * levels[lane];
            squares[lane] += levels[lane] * levels[lane];
        }
    }
    let [products, squares] = [products, squares].map(|lanes| lanes.iter().sum::<f32>());
    // A level is never 0.
    products * products / squares
}

/// No value is off by more than the widest gap of the table, 24 steps, at the scale by which the largest magnitude is 113 steps, and the
/// rounding of that scale. The scale is fitted to the codes that account for the most.
pub(super) fn iq4_nl(values: &[f32; 32], out: &mut [u8; 18]) {
    let table = Table {
        values: &UNEVEN,
        code: uneven,
    };
    let far = farthest(values);
    let [least, most] = [UNEVEN[0], UNEVEN[15]].map(f32::from);
    let plain = half(far / most);
    let limit = 24.0 * (far / most).abs() + most * SUBNORMAL;
    let mut found = (plain, f32::NEG_INFINITY);
    for end in [least, most] {
        for by in -STEPS..=STEPS {
            let scale = far / (end + f32::from(by));
            let accounted = accounted(values, scale);
            if accounted > found.1 {
                found = (scale, accounted);
            }
        }
    }
    let mut best = (plain, table.distance(values, plain));
    let mut last = found.0;
    for _ in 0..REPEATS {
        let next = half(table.fitted(values, last));
        let distance = table.distance(values, next);
        if !distance.is_better(best.1, limit) {
            break;
        }
        best = (next, distance);
        last = next;
    }
    let (scale, _) = best;
    out[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    BlockFormat::Iq4Nl
        .layout()
        .put(&table.codes(values, scale), out);
}

/// No value is off by more than a quarter of the largest magnitude, or 2⁻¹²³: what is above 6 times the scale, but below 8 times, gets the
/// largest code.
pub(super) fn mxfp4(values: &[f32; 32], out: &mut [u8; 17]) {
    let table = Table {
        values: &TWICE_E2M1,
        code: e2m1,
    };
    // The exponent by which the largest magnitude is 4 to 8 times the scale, and the next, by which no value is too large.
    let exponent = (farthest(values).abs().to_bits() >> 23) as u8;
    let lower = exponent.saturating_sub(2);
    let [first, second] = [lower, lower + 1].map(|exponent| {
        let distance = table.distance(values, half_of_exponent(exponent));
        (exponent, distance)
    });
    let (exponent, _) = if second.1.squares < first.1.squares {
        second
    } else {
        first
    };
    out[0] = exponent;
    let codes = table.codes(values, half_of_exponent(exponent));
    BlockFormat::Mxfp4.layout().put(&codes, out);
}
