//! FP8 quantisation against its oracle: scales, codes and values, and the treatment of values that aren't finite.

use crate::fp8_gemm::{FORMATS, block};
use crate::tensors::{tensor, typed, words};
use crate::{Outcome, operation};
use burn::tensor::{DType, FloatDType, Tensor};
use moebius::fp8::{
    Fp8Format, Fp8Scales, Fp8Tensor, Granularity, Overflow, Quantizer, amax, fake_quantize,
};
use moebius_device::Runtime;
use moebius_ops::fp8::{LANES_PER_WORD, decode_host, encode_host, unpack};
use moebius_ops::quantize::{
    Problem, Scales, amax_reference, dequantize_reference, scales_reference,
};
use moebius_ops::{Element, HostTensor, Operation, Quantize};
use moebius_tests::data::{Rng, rounded};
use moebius_tests::target::Target;

const MODES: [Overflow; 2] = [Overflow::Saturate, Overflow::Ieee];

/// Largest relative error of a quotient: WGSL allows a division 2.5 units in the last place.
const DIVISION: f64 = 4.0 / (1 << 24) as f64;

pub(crate) fn granularities() -> [Granularity; 8] {
    [
        Granularity::Tensor,
        Granularity::Row,
        block(128, 128),
        block(1, 128),
        block(1, 32),
        block(3, 5),
        block(2, 1000),
        Granularity::Mx,
    ]
}

fn dtype(element: Element) -> FloatDType {
    match element {
        Element::F32 => FloatDType::F32,
        Element::F16 => FloatDType::F16,
        Element::Bf16 => FloatDType::BF16,
    }
}

/// A stack of matrices and its quantisation settings.
struct Stack {
    shape: [usize; 3],
    x: Vec<f32>,
    element: Element,
    quantizer: Quantizer,
}

/// Values of all magnitudes, including NaN, infinities and subnormals.
pub(crate) fn hostile(len: usize, seed: u64) -> Vec<f32> {
    let mut rng = Rng::new(seed);
    let mut value = |_| match rng.below(40) {
        0 => f32::NAN,
        1 => f32::INFINITY,
        2 => f32::NEG_INFINITY,
        3 => 0.0,
        4 => -0.0,
        5 => 1e-40,
        6 => rng.unit() * 1e30,
        _ => rng.unit() * 2f32.powi(rng.below(24) as i32 - 12),
    };
    (0..len).map(&mut value).collect()
}

/// Normally distributed values: the sum of twelve uniform ones, with variance 4.
pub(crate) fn normal(len: usize, seed: u64) -> Vec<f32> {
    let mut rng = Rng::new(seed);
    let mut value = |_| (0..12).map(|_| rng.unit()).sum::<f32>() / 2.0;
    (0..len).map(&mut value).collect()
}

impl Stack {
    fn new(shape: [usize; 3], x: Vec<f32>, quantizer: Quantizer) -> Self {
        Self {
            shape,
            x,
            element: Element::F32,
            quantizer,
        }
    }

    fn of(mut self, element: Element) -> Self {
        self.element = element;
        self.x.iter_mut().for_each(|x| *x = rounded(*x, element));
        self
    }

    fn problem(&self) -> Problem {
        let Quantizer {
            format,
            granularity,
            overflow,
            margin,
            ..
        } = self.quantizer;
        let problem = Problem::new(self.shape, self.element, granularity, format).unwrap();
        problem.with_overflow(overflow).with_margin(margin).unwrap()
    }

    fn tensor(&self, target: &Target) -> Tensor<3> {
        let dtype = DType::from(dtype(self.element));
        typed(&self.x, self.shape, dtype, &target.burn())
    }

    /// Quantises on the device, if it can store the element type.
    fn quantized(&self, target: &Target) -> Result<Fp8Tensor, String> {
        let kept = target.capability();
        let missing = match self.element {
            Element::F32 => false,
            Element::F16 => !kept.f16,
            Element::Bf16 => !kept.bf16,
        };
        if missing && kept.runtime != Runtime::Flex {
            return Err(format!("{} has no {}", kept.name, self.element));
        }
        Fp8Tensor::quantize(self.tensor(target), &self.quantizer).map_err(|e| e.to_string())
    }

    fn what(&self) -> String {
        format!("{:?} {} {:?}", self.shape, self.element, self.quantizer)
    }

    fn check(&self, target: &Target) -> Outcome {
        let packed = match self.quantized(target) {
            Ok(packed) => packed,
            Err(error) => return Outcome::Unsupported(error),
        };
        let scales = self.check_scales(&packed);
        let codes = self.check_codes(target, &packed, &scales);
        self.check_values(&packed, &codes, &scales);
        self.check_fake(target, &packed);
        Outcome::Ran
    }

    /// Compares the device's scales with the oracle's, within rounding, and returns the device's.
    fn check_scales(&self, packed: &Fp8Tensor) -> Scales {
        let want = scales_reference(&self.problem(), &self.x).unwrap();
        match (packed.scales(), want) {
            (Fp8Scales::F32(scales), Scales::F32(want)) => {
                let got: Vec<f32> = scales.clone().try_into_vec_as().unwrap();
                assert_eq!(got.len(), want.len(), "{}", self.what());
                for (at, (got, want)) in got.iter().zip(&want).enumerate() {
                    let error = (f64::from(*got) / f64::from(*want) - 1.0).abs();
                    let what = format!("scale {at} of {}", self.what());
                    assert!(error <= 1e-6, "{what}: got {got:e}, want {want:e}");
                }
                Scales::F32(got)
            }
            (Fp8Scales::E8M0(scales), Scales::E8M0(want)) => {
                let got = words(scales.clone());
                assert_eq!(got, want, "{}", self.what());
                Scales::E8M0(got)
            }
            (got, want) => panic!("{}: got {got:?}, want {want:?}", self.what()),
        }
    }

    /// Checks the device's words: the oracle's codes under the device's scales, except where a quotient lies so close to a tie
    /// that its rounding decides. Padding is 0.
    fn check_codes(&self, target: &Target, packed: &Fp8Tensor, scales: &Scales) -> Vec<u32> {
        let problem = self.problem();
        let words = words(packed.words().clone());
        let [.., columns] = self.shape;
        let unit = dequantize_reference(&problem, &ones(&problem), scales).unwrap();
        let [.., row_words] = problem.words_shape();
        for (row, words) in words.chunks(row_words.max(1)).enumerate() {
            let codes = unpack(words, row_words * LANES_PER_WORD);
            assert!(codes[columns..].iter().all(|code| *code == 0), "padding");
            for (column, code) in codes[..columns].iter().enumerate() {
                let at = row * columns + column;
                self.check_code(target, at, *code, unit[at]);
            }
        }
        words
    }

    fn check_code(&self, target: &Target, at: usize, got: u8, scale: f64) {
        let Quantizer {
            format, overflow, ..
        } = self.quantizer;
        let x = self.x[at];
        let code = |value: f64| encode_host(value as f32, format, overflow);
        let quotient = f64::from(x) / if x.is_finite() { scale } else { 1.0 };
        let mut allowed = vec![code(quotient)];
        let exact = target.capability().runtime == Runtime::Flex;
        if !exact && self.quantizer.granularity != Granularity::Mx && scale != 1.0 {
            allowed.extend([1.0 - DIVISION, 1.0 + DIVISION].map(|e| code(quotient * e)));
        }
        // XLA takes a subnormal number for 0.
        if target.capability().runtime == Runtime::Xla && x.abs() < f32::MIN_POSITIVE {
            allowed.push(code(0.0f64.copysign(f64::from(x))));
        }
        assert!(
            allowed.iter().any(|code| same_code(got, *code, format)),
            "value {at} of {}: {x:e} / {scale:e} is {got:#x}, expected one of {allowed:x?}",
            self.what()
        );
    }

    /// Checks the decoded values, codes times scales, rounded to each type that the device stores.
    fn check_values(&self, packed: &Fp8Tensor, words: &[u32], scales: &Scales) {
        let want = dequantize_reference(&self.problem(), words, scales).unwrap();
        let got = packed.dequantize(dtype(self.element)).unwrap();
        let got: Vec<f32> = got.try_into_vec_as().unwrap();
        for (at, (got, want)) in got.iter().zip(&want).enumerate() {
            let want = rounded(*want as f32, self.element);
            let near = (got - want).abs() <= ulp(want, self.element);
            let same = *got == want || near || (got.is_nan() && want.is_nan());
            let what = || format!("value {at} of {}", self.what());
            assert!(same, "{}: got {got:e}, want {want:e}", what());
        }
    }

    /// Checks that fake quantisation equals quantisation and back, with computed or given scales.
    fn check_fake(&self, target: &Target, packed: &Fp8Tensor) {
        let back = packed.dequantize(dtype(self.element)).unwrap();
        let back: Vec<f32> = back.try_into_vec_as().unwrap();
        for scales in [None, Some(packed.scales())] {
            let fake = fake_quantize(self.tensor(target), &self.quantizer, scales).unwrap();
            assert_eq!(fake.dims(), self.shape);
            assert_eq!(fake.dtype(), DType::from(dtype(self.element)));
            let fake: Vec<f32> = fake.try_into_vec_as().unwrap();
            let same = |(a, b): (&f32, &f32)| a == b || (a.is_nan() && b.is_nan());
            assert!(fake.iter().zip(&back).all(same), "{}", self.what());
        }
        let (x, scales) = (self.tensor(target), packed.scales().clone());
        let by = Fp8Tensor::quantize_by(x, scales, &self.quantizer).unwrap();
        let [by, own] = [&by, packed].map(|of| words(of.words().clone()));
        assert_eq!(by, own, "{}", self.what());
    }
}

/// Whether two codes are equal, or both NaN: a device that widens a NaN of 16 bits may change its sign.
fn same_code(a: u8, b: u8, format: Fp8Format) -> bool {
    let is_nan = |code: u8| decode_host(code, format).is_nan();
    a == b || is_nan(a) && is_nan(b)
}

/// A tolerance for one rounding to the other neighbour, and for subnormals that a device flushes.
fn ulp(value: f32, element: Element) -> f32 {
    let (epsilon, least) = match element {
        Element::F32 => (f32::EPSILON, f32::MIN_POSITIVE),
        Element::F16 => (2f32.powi(-10), 2f32.powi(-24)),
        Element::Bf16 => (2f32.powi(-7), f32::MIN_POSITIVE),
    };
    (value.abs() * epsilon).max(least)
}

/// Words in which every code is 1.0.
fn ones(problem: &Problem) -> Vec<u32> {
    let one = u32::from(encode_host(1.0, problem.format(), Overflow::Saturate));
    vec![one * 0x0101_0101; problem.words_shape().iter().product()]
}

/// Checks every granularity at sizes around the edges of words, blocks and cubes.
pub(crate) fn sizes(target: &Target) -> Outcome {
    let sizes = [
        [1, 1, 1],
        [1, 1, 3],
        [1, 2, 127],
        [1, 3, 128],
        [2, 5, 129],
        [1, 129, 391],
        [3, 128, 32],
        [1, 127, 260],
        [2, 7, 1028],
    ];
    Outcome::of(sizes.into_iter().enumerate().flat_map(|(seed, shape)| {
        granularities().map(|granularity| {
            let x = hostile(shape.iter().product(), seed as u64);
            let format = FORMATS[seed % 2];
            Stack::new(shape, x, Quantizer::new(format, granularity)).check(target)
        })
    }))
}

/// Checks both formats, both overflow modes, and margins of both signs.
pub(crate) fn modes(target: &Target) -> Outcome {
    let mut runs = Vec::new();
    for format in FORMATS {
        for (at, overflow) in MODES.into_iter().enumerate() {
            let margins = [-3, 0, 2, 64, -64, 20, 1, -1];
            for (margin, granularity) in margins.into_iter().zip(granularities()) {
                let quantizer = Quantizer::new(format, granularity)
                    .with_overflow(overflow)
                    .with_margin(margin);
                let x = hostile(2 * 9 * 67, at as u64);
                runs.push(Stack::new([2, 9, 67], x, quantizer).check(target));
            }
        }
    }
    Outcome::of(runs)
}

/// Checks blocks whose scales are computed by one, a few or many units.
pub(crate) fn large(target: &Target) -> Outcome {
    let shapes = [
        [1, 1, 70_000],
        [1, 300, 1000],
        [2, 130, 4096],
        [1, 2100, 36],
    ];
    let (tensor, row) = (Granularity::Tensor, Granularity::Row);
    let granularities = [tensor, row, block(128, 128), block(70, 6)];
    Outcome::of(shapes.into_iter().flat_map(|shape| {
        granularities.map(|granularity| {
            let x = hostile(shape.iter().product(), 7);
            let quantizer = Quantizer::new(Fp8Format::E4M3, granularity);
            Stack::new(shape, x, quantizer).check(target)
        })
    }))
}

/// Checks blocks without finite values, of zeros, of subnormals and of the largest values.
pub(crate) fn extreme_blocks(target: &Target) -> Outcome {
    let rows = [
        [f32::NAN; 32],
        [f32::NEG_INFINITY; 32],
        [0.0; 32],
        [-0.0; 32],
        [1e-45; 32],
        [-1.1e-38; 32],
        [f32::MIN_POSITIVE; 32],
        [f32::MAX; 32],
        [f32::MIN; 32],
        [448.0; 32],
        [57344.0; 32],
        [1e-30; 32],
    ];
    let mut x: Vec<f32> = rows.as_flattened().to_vec();
    // The same rows with NaN and infinity, which don't count in the scale.
    x.extend(rows.iter().flat_map(|row| {
        let mut row = *row;
        row[0] = f32::NAN;
        row[31] = f32::INFINITY;
        row
    }));
    let granularities = [Granularity::Row, block(1, 32), Granularity::Mx, block(1, 7)];
    Outcome::of(granularities.into_iter().flat_map(|granularity| {
        [-64, 0, 64].map(|margin| {
            let quantizer = Quantizer::new(Fp8Format::E4M3, granularity).with_margin(margin);
            Stack::new([1, 24, 32], x.clone(), quantizer).check(target)
        })
    }))
}

/// Checks all 65 536 bit patterns of a 16-bit type under a scale of 1, and in blocks of their own.
fn every_pattern(target: &Target, element: Element, value: fn(u16) -> f32) -> Outcome {
    let x: Vec<f32> = (0..=u16::MAX).map(value).collect();
    let mut runs = Vec::new();
    for format in FORMATS {
        for overflow in MODES {
            for granularity in [Granularity::Row, Granularity::Mx] {
                let quantizer = Quantizer::new(format, granularity).with_overflow(overflow);
                for kept in [element, Element::F32] {
                    let stack = Stack::new([1, 64, 1024], x.clone(), quantizer).of(kept);
                    let refused = kept == element && stack.quantized(target).is_err();
                    if !refused {
                        runs.push(stack.check(target));
                        runs.push(check_unscaled(target, &stack));
                    }
                }
            }
        }
    }
    Outcome::of(runs)
}

/// Checks that codes under given scales of 1 are plain casts.
fn check_unscaled(target: &Target, stack: &Stack) -> Outcome {
    let problem = stack.problem();
    let scales = match stack.quantizer.granularity {
        // Four bytes of 2⁰.
        Granularity::Mx => HostTensor::Words(vec![0x7F7F_7F7F; problem.scales()]),
        _ => HostTensor::Floats(vec![1.0; problem.scales()]),
    };
    let operands = [HostTensor::of_f32(&stack.x), scales];
    let operation = Quantize::QuantizeBy(problem);
    let got = match operation::run(target, &operation, &operands) {
        Ok(got) => got,
        Err(error) => return Outcome::Unsupported(error),
    };
    let want = Operation::from(operation).reference(&operands).unwrap();
    let codes = |results: &[HostTensor]| match results {
        [HostTensor::Words(words)] => unpack(words, words.len() * LANES_PER_WORD),
        _ => panic!("codes of {}", stack.what()),
    };
    let (got, want) = (codes(&got), codes(&want));
    assert_eq!(got.len(), want.len(), "{}", stack.what());
    for (at, (got, want)) in got.iter().zip(&want).enumerate() {
        let same = same_code(*got, *want, problem.format());
        assert!(
            same,
            "code {at} of {}: {got:#x} for {want:#x}",
            stack.what()
        );
    }
    Outcome::Ran
}

pub(crate) fn every_f16_value(target: &Target) -> Outcome {
    let value = |bits| half::f16::from_bits(bits).to_f32();
    every_pattern(target, Element::F16, value)
}

pub(crate) fn every_bf16_value(target: &Target) -> Outcome {
    let value = |bits| half::bf16::from_bits(bits).to_f32();
    every_pattern(target, Element::Bf16, value)
}

pub(crate) fn largest_magnitude(target: &Target) {
    for len in [1, 3, 4, 127, 1000, 4097, 70_000, 1 << 20] {
        let mut x = hostile(len, len as u64);
        x[len / 2] = -3e30;
        let got = amax(tensor(&x, [len], &target.burn())).unwrap();
        assert_eq!(got.dims(), [1]);
        let got: f32 = got.into_scalar();
        assert_eq!(got, amax_reference(&x), "{len} values");
    }
    for (x, want) in [
        (f32::NAN, 0.0),
        (f32::INFINITY, 0.0),
        (-0.0, 0.0),
        (-f32::MAX, f32::MAX),
        (-1e-40, 1e-40),
    ] {
        let x = tensor(&[x; 5], [5], &target.burn());
        let got: f32 = amax(x).unwrap().into_scalar();
        assert_eq!(got.to_bits(), f32::to_bits(want));
    }
}

/// Checks that every run gives the same bits.
pub(crate) fn repeats_bit_for_bit(target: &Target) {
    for granularity in granularities() {
        let quantizer = Quantizer::new(Fp8Format::E4M3, granularity);
        let stack = Stack::new([2, 130, 516], hostile(2 * 130 * 516, 3), quantizer);
        let run = || {
            let packed = stack.quantized(target).unwrap();
            let codes = words(packed.words().clone());
            (codes, packed.to_scales().unwrap())
        };
        let first = run();
        (0..3).for_each(|_| assert_eq!(run(), first, "{}", stack.what()));
    }
}

/// Checks that every word of codes and scales, padding included, is written in buffers that held garbage.
pub(crate) fn overwrites_its_outputs(target: &Target) -> Outcome {
    Outcome::of(granularities().map(|granularity| {
        // Powers of two, so that no quotient is near a tie.
        let x: Vec<f32> = (0..2 * 5 * 131).map(|i| 2f32.powi(i % 7)).collect();
        let stack = Stack::new([2, 5, 131], x, Quantizer::new(FORMATS[0], granularity));
        let problem = stack.problem();
        let x = [HostTensor::of_f32(&stack.x)];
        let coded = Operation::from(Quantize::Quantize(problem)).reference(&x);
        let coded = coded.unwrap();
        let scaled = [x[0].clone(), coded[1].clone()];
        let check = |of, operands: &[HostTensor]| operation::check(target, of, operands, |_| 1e-6);
        Outcome::of([
            check(Quantize::Quantize(problem), &x),
            check(Quantize::QuantizeBy(problem), &scaled),
            check(Quantize::Dequantize(problem), &coded),
        ])
    }))
}

pub(crate) fn halves(target: &Target, element: Element) -> Outcome {
    Outcome::of([[1, 5, 129], [2, 130, 260]].into_iter().flat_map(|shape| {
        granularities().map(|granularity| {
            let x = hostile(shape.iter().product(), 9);
            let quantizer = Quantizer::new(Fp8Format::E5M2, granularity);
            Stack::new(shape, x, quantizer).of(element).check(target)
        })
    }))
}
