//! Tests of codes and scales of matrices.

use crate::casts::FORMATS;
use crate::run::{check, f32s, floats, run, words};
use moebius_ops::fp8::{Fp8Format, Overflow};
use moebius_ops::quantize::Problem;
use moebius_ops::scaling::{Granularity, e8m0_value};
use moebius_ops::{Element, Operation, Quantize};
use moebius_pjrt::ElementType::BF16;

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

fn problem(shape: [usize; 3], granularity: Granularity, format: Fp8Format, margin: i32) -> Problem {
    let problem = Problem::new(shape, Element::F32, granularity, format).unwrap();
    problem.with_margin(margin).unwrap()
}

/// A tolerance of 0: equal to the last bit.
fn exactly(_: &[f64]) -> f64 {
    0.0
}

/// A tolerance for subnormal numbers only, which a device may flush to 0.
fn but_subnormals(_: &[f64]) -> f64 {
    f64::from(f32::MIN_POSITIVE)
}

/// Values of many magnitudes, with whole rows of zeros, and NaN and infinities among them.
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
        every_operation(&problem([2, 7, 130], granularity, Fp8Format::E4M3, 0));
        every_operation(&problem([1, 4, 33], granularity, Fp8Format::E5M2, 2));
    }
    every_operation(&problem([3, 1, 1], BLOCK, Fp8Format::E4M3, -1));
    every_operation(&problem([1, 5, 12], Granularity::Mx, Fp8Format::E4M3, 0));
}

/// Checks every operation on the codes and scales of one matrix.
fn every_operation(p: &Problem) {
    let shape = p.shape();
    let x = f32s(&shape, &matrix(shape.iter().product(), shape[2]));
    let coded = check(Quantize::Quantize(*p), std::slice::from_ref(&x), exactly);
    check(Quantize::Dequantize(*p), &coded, but_subnormals);
    let by_scales = [x, coded[1].clone()];
    check(Quantize::QuantizeBy(*p), &by_scales, exactly);
    check(Quantize::FakeQuantize(*p), &by_scales[..1], but_subnormals);
    check(Quantize::FakeQuantizeBy(*p), &by_scales, but_subnormals);
}

/// Blocks of one value: the mantissas of a whole binade, and magnitudes from the smallest on. Codes of subnormals may
/// differ.
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
                let p = problem([1, amax.len(), 1], granularity, format, margin);
                let (x, quantize) = (
                    f32s(&p.shape(), &amax),
                    Operation::from(Quantize::Quantize(p)),
                );
                let want = quantize.reference(&[x.to_tensor()]).unwrap();
                let got = run(quantize, &[x]);
                assert!(got[1].to_tensor() == want[1], "{p:?}");
            }
        }
    }
}

#[test]
fn given_bytes_of_every_size() {
    let bytes: Vec<u8> = (0..255).collect();
    for format in FORMATS {
        let p = problem([1, 255, 32], Granularity::Mx, format, 0);
        let scales: Vec<u32> = bytes.iter().map(|byte| u32::from(*byte)).collect();
        let scales = words(&[1, 255, 1], &scales);
        // Values whose quotients are 0.75, 3, 12, …, −∞ and NaN; subnormal values become 0.
        let value = |i: usize| match i % 32 {
            30 => f32::NEG_INFINITY,
            31 => f32::NAN,
            place => {
                let power = f64::from(2 * place as u8).exp2() * 2f64.powi(-32);
                (0.75 * power * f64::from(e8m0_value(bytes[i / 32]))) as f32
            }
        };
        let values = (0..255 * 32).map(value);
        let normal = values.map(|x| if x.abs() < f32::MIN_POSITIVE { 0.0 } else { x });
        let x = f32s(&p.shape(), &normal.collect::<Vec<_>>());
        let codes = check(Quantize::QuantizeBy(p), &[x, scales.clone()], exactly).remove(0);
        check(Quantize::Dequantize(p), &[codes, scales], but_subnormals);
    }
}

#[test]
fn sixteen_bits_stay_sixteen_bits() {
    let p = Problem::new([1, 4, 37], Element::Bf16, BLOCK, Fp8Format::E4M3).unwrap();
    let x = floats(BF16, &p.shape(), &matrix(148, 37));
    let got = check(Quantize::FakeQuantize(p), &[x], but_subnormals);
    assert_eq!(got[0].ty.element, BF16);
}

#[test]
fn overflow_without_saturation() {
    for format in FORMATS {
        let p = problem([1, 1, 6], Granularity::Tensor, format, 0).with_overflow(Overflow::Ieee);
        let x = [1e9, -1e9, 464.0, 465.0, 61439.0, f32::NEG_INFINITY];
        let inputs = [f32s(&p.shape(), &x), f32s(&[1, 1, 1], &[1.0])];
        check(Quantize::QuantizeBy(p), &inputs, exactly);
    }
}

#[test]
fn the_largest_finite_magnitude() {
    let of = [
        &[1.0, -3.0, f32::NAN, f32::INFINITY, 2.0][..],
        &[f32::NAN, -0.0],
        &[0.0, -1e-45],
        &[],
    ];
    for (x, want) in of.into_iter().zip([3.0, 0.0, 1e-45, 0.0]) {
        let shape = vec![x.len()];
        let x = f32s(&shape, x);
        let element = Element::F32;
        let amax = check(Quantize::Amax { shape, element }, &[x], exactly);
        assert_eq!(amax[0].to_floats(), [want]);
    }
}

#[test]
fn no_values_have_no_codes() {
    for (shape, granularity) in [
        ([1, 0, 5], Granularity::Tensor),
        ([2, 3, 0], Granularity::Row),
    ] {
        let p = problem(shape, granularity, Fp8Format::E4M3, 0);
        let got = check(Quantize::Quantize(p), &[f32s(&shape, &[])], exactly);
        assert!(got[0].bytes.is_empty());
    }
}
