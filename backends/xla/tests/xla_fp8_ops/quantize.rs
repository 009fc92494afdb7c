//! Codes and scales of matrices.

use crate::codec::{Encoder, FORMATS, decode, pack_rows};
use crate::plugin::{Host, call};
use moebius_ops::fp8::{Fp8Format as Format, Overflow};
use moebius_ops::quantize::Problem;
use moebius_ops::scaling::Granularity;
use moebius_ops::{Element, Quantize};
use moebius_xla::ElementType;

const BLOCK: Granularity = Granularity::Block {
    rows: 3,
    columns: 5,
};
const GRANULARITIES: [Granularity; 5] = [
    Granularity::Tensor,
    Granularity::Row,
    BLOCK,
    Granularity::Block {
        rows: 128,
        columns: 128,
    },
    Granularity::Mx,
];

fn scaling(shape: [usize; 3], granularity: Granularity, format: Format, margin: i32) -> Problem {
    let problem = Problem::new(shape, Element::F32, granularity, format).unwrap();
    problem.with_margin(margin).unwrap()
}

/// The value of an E8M0 byte.
fn power(byte: u8) -> f64 {
    match byte {
        255 => f64::NAN,
        byte => (f64::from(byte) - 127.0).exp2(),
    }
}

/// Scales \[M, down, across\]: f32s, or the bytes that stand for them.
struct Scales {
    values: Vec<f64>,
    bytes: Vec<u8>,
    down: usize,
    across: usize,
}

/// A subnormal as its bits read with an implicit one, which is more: bytes follow from the exponent.
fn as_if_normal(amax: f64) -> f64 {
    if amax < f64::from(f32::MIN_POSITIVE) {
        amax / 2.0 + (-127f64).exp2()
    } else {
        amax
    }
}

/// Where a value has its scale.
fn place(s: &Problem, [matrix, row, column]: [usize; 3]) -> usize {
    let ([r, c], [down, across]) = (s.block(), s.blocks());
    (matrix * down + row / r) * across + column / c
}

fn places(s: &Problem) -> Vec<usize> {
    let [matrices, rows, columns] = s.shape();
    let index = |i: usize| [i / columns / rows, i / columns % rows, i % columns];
    (0..matrices * rows * columns)
        .map(|i| place(s, index(i)))
        .collect()
}

/// The oracle of scales: in f64, rounded once.
fn scales_of(s: &Problem, x: &[f32]) -> Scales {
    let [down, across] = s.blocks();
    let mut amax = vec![0.0f64; s.shape()[0] * down * across];
    for (at, x) in places(s).into_iter().zip(x) {
        if x.is_finite() {
            amax[at] = amax[at].max(f64::from(x.abs()));
        }
    }
    let wanted = |amax: &f64| amax * f64::from(s.margin()).exp2() / f64::from(s.format().max());
    let byte = |amax: &f64| match *amax {
        0.0 => 127,
        _ => (1..=254)
            .find(|byte| power(*byte) >= wanted(&as_if_normal(*amax)))
            .unwrap_or(254),
    };
    let bytes: Vec<u8> = amax.iter().map(byte).collect();
    let value = |(amax, byte): (&f64, &u8)| match (s.granularity(), *amax) {
        (Granularity::Mx, _) => power(*byte),
        (_, 0.0) => 1.0,
        _ => f64::from((wanted(amax) as f32).clamp(f32::MIN_POSITIVE, f32::MAX)),
    };
    Scales {
        values: amax.iter().zip(&bytes).map(value).collect(),
        bytes,
        down,
        across,
    }
}

impl Scales {
    fn host(&self, s: &Problem) -> Host {
        let shape = [s.shape()[0], self.down, self.across];
        match s.granularity() {
            Granularity::Mx => {
                let words = pack_rows(&self.bytes, self.across);
                Host::ints(&[shape[0], shape[1], shape[2].div_ceil(4)], &words)
            }
            _ => {
                let values: Vec<f32> = self.values.iter().map(|v| *v as f32).collect();
                Host::f32s(&shape, &values)
            }
        }
    }
}

/// The codes of x; a quotient is rounded to f32 first, as a division does.
fn codes_of(s: &Problem, x: &[f32], scales: &Scales) -> Vec<u8> {
    let encoder = Encoder::new(s.format(), s.overflow());
    let code = |(at, x): (usize, &f32)| encoder.encode((f64::from(*x) / scales.values[at]) as f32);
    places(s).into_iter().zip(x).map(code).collect()
}

fn values_of(s: &Problem, codes: &[u8], scales: &Scales) -> Vec<f32> {
    let value = |(at, code): (usize, &u8)| (decode(*code, s.format()) * scales.values[at]) as f32;
    places(s).into_iter().zip(codes).map(value).collect()
}

/// Equal, both NaN, or both below the normal numbers, which a device may flush.
fn assert_values(got: &[f32], want: &[f32], what: &str) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let tiny = got.abs().max(want.abs()) <= f32::MIN_POSITIVE;
        let same = got == want || (got.is_nan() && want.is_nan());
        assert!(same || tiny, "{what}, {i}: {got:e}, {want:e}");
    }
}

/// Values of many magnitudes, with whole rows of zeros, NaN and infinities among them.
fn matrix(len: usize, columns: usize) -> Vec<f32> {
    let value = |i: usize| match (i / columns % 4, i % 37) {
        (2, _) => 0.0,
        (_, 5) => -0.0,
        (_, 11) => f32::NAN,
        (_, 17) if i.is_multiple_of(2) => f32::INFINITY,
        (_, 17) => f32::NEG_INFINITY,
        _ => {
            let wave = (1.7 * i as f64).sin() as f32;
            wave * (((i * 7) % 23) as f32 - 12.0).exp2()
        }
    };
    (0..len).map(value).collect()
}

#[test]
fn codes_and_scales_to_the_last_bit() {
    for granularity in GRANULARITIES {
        check(&scaling([2, 7, 130], granularity, Format::E4M3, 0));
        check(&scaling([1, 4, 33], granularity, Format::E5M2, 2));
    }
    check(&scaling([3, 1, 1], BLOCK, Format::E4M3, -1));
    check(&scaling([1, 5, 12], Granularity::Mx, Format::E4M3, 0));
}

/// Every operation on codes and scales of one matrix.
fn check(s: &Problem) {
    let (what, shape) = (format!("{s:?}"), s.shape());
    let x = matrix(shape.iter().product(), shape[2]);
    let scales = scales_of(s, &x);
    let codes = codes_of(s, &x, &scales);
    let words = pack_rows(&codes, shape[2]);
    let tensor = Host::f32s(&shape, &x);

    let got = call(Quantize::Quantize(*s), std::slice::from_ref(&tensor));
    assert!(got[1] == scales.host(s), "scales, {what}");
    assert_eq!(got[0].words(), words, "{what}");
    let inputs = [tensor, scales.host(s)];
    let got = call(Quantize::QuantizeBy(*s), &inputs);
    assert_eq!(got[0].words(), words, "given scales, {what}");

    let want = values_of(s, &codes, &scales);
    let packed = Host::ints(&[shape[0], shape[1], shape[2].div_ceil(4)], &words);
    let got = call(Quantize::Dequantize(*s), &[packed, scales.host(s)]);
    assert_values(&got[0].floats(), &want, &what);
    let got = call(Quantize::FakeQuantize(*s), &inputs[..1]);
    assert_values(&got[0].floats(), &want, &what);
    let got = call(Quantize::FakeQuantizeBy(*s), &inputs);
    assert_values(&got[0].floats(), &want, &what);
}

/// One value to a block: the mantissas of a whole binade, and magnitudes from the smallest on.
#[test]
fn scales_of_every_magnitude_are_rounded_once() {
    let mut amax: Vec<f32> = (0..1u32 << 13)
        .map(|i| f32::from_bits(0x3F80_0000 | i << 10 | (i & 0x3FF)))
        .collect();
    amax.extend((0..1u32 << 13).map(|i| f32::from_bits((i << 18) | (i & 7)).clamp(0.0, f32::MAX)));
    amax.extend([1, 2, 3, 0x7F_FFFF, 0x80_0000, 0x7F7F_FFFF].map(f32::from_bits));
    for format in FORMATS {
        for margin in [0, -3, 64, -64] {
            for granularity in [Granularity::Row, Granularity::Mx] {
                let s = scaling([1, amax.len(), 1], granularity, format, margin);
                let x = Host::f32s(&s.shape(), &amax);
                let got = call(Quantize::Quantize(s), &[x]);
                let (got, want) = (got[1].words(), scales_of(&s, &amax).host(&s).words());
                for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                    assert_eq!(
                        got, want,
                        "{granularity:?} {format:?} {margin}: {:e}",
                        amax[i]
                    );
                }
            }
        }
    }
}

#[test]
fn given_bytes_of_every_size() {
    let bytes: Vec<u8> = (0..255).collect();
    for format in FORMATS {
        let s = scaling([1, 255, 32], Granularity::Mx, format, 0);
        let scales = Scales {
            values: bytes.iter().map(|byte| power(*byte)).collect(),
            bytes: bytes.clone(),
            down: 255,
            across: 1,
        };
        // Quotients 0.75, 3, 12 … and −∞ and NaN, wherever they are f32s and normal.
        let x: Vec<f32> = (0..255 * 32)
            .map(|i| match i % 32 {
                30 => f32::NEG_INFINITY,
                31 => f32::NAN,
                place => {
                    (0.75
                        * f64::from(2 * place as u8).exp2()
                        * 2f64.powi(-32)
                        * power((i / 32) as u8)) as f32
                }
            })
            .map(|x| if x.abs() < f32::MIN_POSITIVE { 0.0 } else { x })
            .collect();
        let codes = codes_of(&s, &x, &scales);
        let words = pack_rows(&codes, 32);
        let by = Quantize::QuantizeBy(s);
        let got = call(by, &[Host::f32s(&s.shape(), &x), scales.host(&s)]);
        assert_eq!(got[0].words(), words);
        let back = Quantize::Dequantize(s);
        let got = call(back, &[Host::ints(&[1, 255, 8], &words), scales.host(&s)]);
        assert_values(&got[0].floats(), &values_of(&s, &codes, &scales), "bytes");
    }
}

#[test]
fn sixteen_bits_stay_sixteen_bits() {
    let s = Problem::new([1, 4, 37], Element::Bf16, BLOCK, Format::E4M3).unwrap();
    let x: Vec<half::bf16> = matrix(148, 37)
        .into_iter()
        .map(half::bf16::from_f32)
        .collect();
    let wide: Vec<f32> = x.iter().map(|x| x.to_f32()).collect();
    let bits: Vec<u16> = x.iter().map(|x| x.to_bits()).collect();
    let tensor = Host::halves(ElementType::BF16, &bits).reshaped(&s.shape());
    let scales = scales_of(&s, &wide);
    let want = values_of(&s, &codes_of(&s, &wide, &scales), &scales);
    let want: Vec<f32> = want
        .iter()
        .map(|x| half::bf16::from_f32(*x).to_f32())
        .collect();
    let got = call(Quantize::FakeQuantize(s), &[tensor]);
    let got: Vec<f32> = got[0]
        .halves_of()
        .map(|bits| half::bf16::from_bits(bits).to_f32())
        .collect();
    assert_values(&got, &want, "bf16");
}

#[test]
fn overflow_without_saturation() {
    for format in FORMATS {
        let s = scaling([1, 1, 6], Granularity::Tensor, format, 0).with_overflow(Overflow::Ieee);
        let x = [1e9, -1e9, 464.0, 465.0, 61439.0, f32::NEG_INFINITY];
        let scales = Scales {
            values: vec![1.0],
            bytes: vec![127],
            down: 1,
            across: 1,
        };
        let words = pack_rows(&codes_of(&s, &x, &scales), 6);
        let by = Quantize::QuantizeBy(s);
        let got = call(by, &[Host::f32s(&s.shape(), &x), scales.host(&s)]);
        assert_eq!(got[0].words(), words);
    }
}

#[test]
fn the_largest_finite_magnitude() {
    let amax = |x: &[f32]| {
        let amax = Quantize::Amax {
            shape: vec![x.len()],
            element: Element::F32,
        };
        call(amax, &[Host::f32s(&[x.len()], x)])[0].floats()
    };
    assert_eq!(amax(&[1.0, -3.0, f32::NAN, f32::INFINITY, 2.0]), [3.0]);
    assert_eq!(amax(&[f32::NAN, -0.0]), [0.0]);
    assert_eq!(amax(&[0.0, -1e-45]), [1e-45]);
    assert_eq!(amax(&[]), [0.0]);
}

#[test]
fn no_values_have_no_codes() {
    for (shape, granularity) in [
        ([1, 0, 5], Granularity::Tensor),
        ([2, 3, 0], Granularity::Row),
    ] {
        let s = scaling(shape, granularity, Format::E4M3, 0);
        let got = call(Quantize::Quantize(s), &[Host::f32s(&shape, &[])]);
        assert!(got[0].words().is_empty());
        assert!(got[1] == scales_of(&s, &[]).host(&s));
    }
}
