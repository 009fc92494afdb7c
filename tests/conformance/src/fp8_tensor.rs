//! `Fp8Tensor`: its values, its reported error, its gradients, and its refusals.

use crate::fp8_gemm::{FORMATS, block};
use crate::quantize::{granularities, normal};
use crate::tensors::{floats, tensor};
use burn::module::Param;
use burn::tensor::{FloatDType, Tensor};
use moebius::ErrorKind;
use moebius::fp8::{
    Fp8Format, Fp8Layout, Fp8Scheme, Fp8Tensor, Granularity, HostScales, Overflow, Quantizer,
    ScaleRule, Weight, amax, fake_quantize,
};
use moebius_ops::fp8::{decode_host, encode_host};
use moebius_tests::refusal::assert_refused;
use moebius_tests::target::Target;
use pollster::block_on;

/// Checks all 256 codes under several scales, in rows that don't fill their last word.
pub(crate) fn every_code(target: &Target) {
    let codes: Vec<u8> = (0..3).flat_map(|_| 0..=255u8).collect();
    for format in FORMATS {
        let (row, mx) = (Granularity::Row, Granularity::Mx);
        for (columns, granularity) in [(256, row), (32, mx), (3, row)] {
            let layout = Fp8Layout {
                shape: [1, codes.len() / columns, columns],
                scheme: Fp8Scheme {
                    format,
                    granularity,
                },
            };
            let rows = layout.shape[1];
            let scales: Vec<i32> = (0..rows as i32).map(|row| row % 3 - 1).collect();
            let given = match granularity {
                Granularity::Mx => {
                    HostScales::E8M0(scales.iter().map(|s| (127 + s) as u8).collect())
                }
                _ => HostScales::F32(scales.iter().map(|s| 2f32.powi(*s)).collect()),
            };
            let packed = Fp8Tensor::from_codes(&codes, &given, layout, &target.burn()).unwrap();
            assert_eq!(packed.to_codes().unwrap(), codes);
            assert_eq!(packed.to_scales().unwrap(), given);
            assert_eq!(block_on(packed.to_codes_async()).unwrap(), codes);
            assert_eq!(block_on(packed.to_scales_async()).unwrap(), given);
            let y = floats(packed.dequantize(FloatDType::F32).unwrap());
            for (at, (code, got)) in codes.iter().zip(y).enumerate() {
                let want = decode_host(*code, format) * 2f32.powi(scales[at / columns]);
                let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
                assert!(same, "{format:?} {code:#x}: got {got:e}, want {want:e}");
            }
        }
    }
}

/// Checks all 256 E8M0 bytes, including the subnormal 2⁻¹²⁷ and NaN.
pub(crate) fn every_e8m0_scale(target: &Target) {
    let bytes: Vec<u8> = (0..=255).collect();
    let layout = Fp8Layout {
        shape: [1, 64, 128],
        scheme: Fp8Scheme {
            format: Fp8Format::E5M2,
            granularity: Granularity::Mx,
        },
    };
    // With the code of 1024, 2⁻¹²⁷ · 1024 is normal and 2¹²⁷ · 1024 infinite.
    let code = encode_host(1024.0, layout.scheme.format, Overflow::Saturate);
    let codes = vec![code; 64 * 128];
    let scales = HostScales::E8M0(bytes.clone());
    let packed = Fp8Tensor::from_codes(&codes, &scales, layout, &target.burn()).unwrap();
    let y = floats(packed.dequantize(FloatDType::F32).unwrap());
    for (byte, got) in bytes.iter().zip(y.chunks(32)) {
        let want = (1024.0 * 2f64.powi(i32::from(*byte) - 127)) as f32;
        let same = |got: &f32| *got == want || (*byte == 255 && got.is_nan());
        let first = got[0];
        assert!(
            got.iter().all(same),
            "byte {byte}: got {first:e}, want {want:e}"
        );
    }
}

/// Checks matrices without rows or columns, alone and in stacks, and stacks without matrices.
pub(crate) fn empty(target: &Target) {
    for shape in [[0, 3, 4], [1, 0, 5], [2, 6, 0]] {
        empty_of(target, shape, shape);
    }
    for [rows, columns] in [[0, 5], [3, 0], [0, 0]] {
        empty_of(target, [rows, columns], [1, rows, columns]);
        let weight = Tensor::<2>::zeros([rows, columns], &target.burn());
        let weight = Weight::from(Param::from_tensor(weight));
        let quantizer = Quantizer::new(Fp8Format::E4M3, Granularity::Row);
        assert_refused(ErrorKind::Shape, weight.quantize(&quantizer));
    }
}

/// Checks a tensor without elements, and the stack shape that it is quantised as.
fn empty_of<const D: usize>(target: &Target, shape: [usize; D], stack: [usize; 3]) {
    for granularity in granularities() {
        let quantizer = Quantizer::new(Fp8Format::E4M3, granularity);
        let x = Tensor::<D>::zeros(shape, &target.burn());
        let packed = Fp8Tensor::quantize(x.clone(), &quantizer).unwrap();
        assert_eq!(packed.to_codes().unwrap(), [0u8; 0]);
        let y = packed.dequantize(FloatDType::F32).unwrap();
        assert_eq!(y.dims(), stack);
        let faked = fake_quantize(x.clone(), &quantizer, None).unwrap();
        assert_eq!(faked.dims(), shape);
        let scales = packed.scales().clone();
        assert!(Fp8Tensor::quantize_by(x.clone(), scales, &quantizer).is_ok());
        let error: f32 = packed.relative_error(x.clone()).unwrap().into_scalar();
        assert_eq!(error, 0.0);
        let largest: f32 = amax(x).unwrap().into_scalar();
        assert_eq!(largest, 0.0);
        let both = Fp8Tensor::concat(vec![packed.clone(), packed]).unwrap();
        let [matrices, rows, columns] = stack;
        assert_eq!(both.layout().shape, [2 * matrices, rows, columns]);
    }
}

/// Checks the relative errors that the device reports for normally distributed values.
pub(crate) fn round_trip(target: &Target) {
    let x = normal(256 * 512, 11);
    for (format, most) in [(Fp8Format::E4M3, 0.027), (Fp8Format::E5M2, 0.053)] {
        for granularity in granularities() {
            let quantizer = Quantizer::new(format, granularity);
            let source = tensor(&x, [256, 512], &target.burn());
            let packed = Fp8Tensor::quantize(source.clone(), &quantizer).unwrap();
            let told: f32 = packed.relative_error(source).unwrap().into_scalar();
            let y = floats(packed.dequantize(FloatDType::F32).unwrap());
            let (mut error, mut norm) = (0.0, 0.0);
            for (x, y) in x.iter().zip(y) {
                error += (f64::from(*x) - f64::from(y)).powi(2);
                norm += f64::from(*x).powi(2);
            }
            let found = (error / norm).sqrt();
            assert!(found <= most, "{quantizer:?} errs by {found}");
            assert!(
                (f64::from(told) / found - 1.0).abs() < 1e-3,
                "{told} is not {found}"
            );
        }
    }
}

/// Checks that the gradient of a fake quantisation passes straight through, and that the other operations have none.
pub(crate) fn gradients(target: &Target) {
    let device = target.burn().autodiff();
    let values = normal(6 * 40, 5);
    let x = || tensor(&values, [6, 40], &device).require_grad();
    let quantizer = Quantizer::new(Fp8Format::E4M3, Granularity::Mx);
    let packed = Fp8Tensor::quantize(x(), &quantizer).unwrap();
    for scales in [None, Some(packed.scales())] {
        let x = x();
        let y = fake_quantize(x.clone(), &quantizer, scales).unwrap();
        let grads = (y * 3.0).sum().backward();
        assert_eq!(floats(x.grad(&grads).unwrap()), [3.0; 240]);
    }
    assert!(!amax(x()).unwrap().is_require_grad());
    let error: f32 = packed.relative_error(x()).unwrap().into_scalar();
    assert!(error < 0.04);
    let plain = Fp8Tensor::quantize(x().inner(), &quantizer).unwrap();
    assert_eq!(plain.to_codes().unwrap(), packed.to_codes().unwrap());
}

/// Asserts an error of this kind with this message.
fn refused_as(kind: ErrorKind, result: Result<Fp8Tensor, moebius::Error>, message: &str) {
    let error = assert_refused(kind, result);
    assert!(error.contains(message), "{error}");
}

/// Asserts a shape error with this message.
fn refused(result: Result<Fp8Tensor, moebius::Error>, message: &str) {
    refused_as(ErrorKind::Shape, result, message);
}

/// Checks that wrong shapes and settings are refused.
pub(crate) fn refuses_wrong_input(target: &Target) {
    let device = target.burn();
    let row = Quantizer::new(Fp8Format::E4M3, Granularity::Row);
    let x = Tensor::<2>::ones([4, 6], &device);
    let flat = Fp8Tensor::quantize(Tensor::<1>::ones([4], &device), &row);
    refused(flat, "shape to quantise");
    let wide = Fp8Tensor::quantize(x.clone(), &row.with_margin(65));
    refused_as(ErrorKind::Config, wide, "margin");
    let none = Quantizer::new(Fp8Format::E4M3, block(0, 4));
    let empty = Fp8Tensor::quantize(x.clone(), &none);
    refused_as(ErrorKind::Config, empty, "block of a scale");
    assert!(none.validate().is_err() && row.with_margin(-65).validate().is_err());
    assert!(row.validate().is_ok());
}

/// Checks that parts that don't fit their layout are shape errors.
pub(crate) fn refuses_wrong_parts(target: &Target) {
    let device = target.burn();
    let row = Quantizer::new(Fp8Format::E4M3, Granularity::Row);
    let x = Tensor::<2>::ones([4, 6], &device);
    let packed = Fp8Tensor::quantize(x.clone(), &row).unwrap();
    let (words, scales) = (packed.words().clone(), packed.scales().clone());
    let layout = packed.layout();
    let tall = Fp8Layout {
        shape: [1, 5, 6],
        ..layout
    };
    let scaled = |granularity| Fp8Layout {
        scheme: Fp8Scheme {
            granularity,
            ..layout.scheme
        },
        ..layout
    };
    let (whole, mx) = (scaled(Granularity::Tensor), scaled(Granularity::Mx));
    let parts = |layout| Fp8Tensor::from_parts(words.clone(), scales.clone(), layout);
    assert!(parts(layout).is_ok());
    refused(parts(tall), "fp8 words");
    refused(parts(whole), "scales");
    refused(parts(mx), "type of scales");
    let wide = Tensor::<2>::ones([5, 6], &device);
    let by = Fp8Tensor::quantize_by(wide.clone(), scales.clone(), &row);
    refused(by, "scales");
    assert!(fake_quantize(wide.clone(), &row, Some(&scales)).is_err());
    assert!(packed.relative_error(wide).is_err());

    let bytes = HostScales::E8M0(vec![127; 4]);
    let floats = HostScales::F32(vec![1.0; 4]);
    let from = |codes: usize, scales, layout| {
        Fp8Tensor::from_codes(&vec![0; codes], scales, layout, &device)
    };
    assert!(from(24, &floats, layout).is_ok() && from(24, &bytes, mx).is_ok());
    refused(from(23, &floats, layout), "fp8 codes");
    refused(from(24, &bytes, layout), "type of scales");
    refused(from(24, &floats, mx), "type of scales");
    refused(from(24, &floats, whole), "scales: expected 1");
}

/// Checks concatenation along the stack, and that a part of another shape, or no part, is refused.
pub(crate) fn concatenates(target: &Target) {
    let device = target.burn();
    for granularity in granularities() {
        let quantizer = Quantizer::new(Fp8Format::E4M3, granularity);
        let x = tensor(&normal(3 * 10 * 70, 4), [3, 10, 70], &device);
        let whole = Fp8Tensor::quantize(x.clone(), &quantizer).unwrap();
        let part = |from: usize, to: usize| {
            Fp8Tensor::quantize(x.clone().slice([from..to, 0..10, 0..70]), &quantizer).unwrap()
        };
        let joined = Fp8Tensor::concat(vec![part(0, 1), part(1, 3)]).unwrap();
        assert_eq!(joined.layout(), whole.layout());
        assert_eq!(joined.to_codes().unwrap(), whole.to_codes().unwrap());
        assert_eq!(joined.to_scales().unwrap(), whole.to_scales().unwrap());
        let narrow = x.clone().slice([0..1, 0..10, 0..69]);
        let narrow = Fp8Tensor::quantize(narrow, &quantizer).unwrap();
        refused(Fp8Tensor::concat(vec![part(0, 1), narrow]), "fp8 part");
    }
    refused(Fp8Tensor::concat(Vec::new()), "fp8 parts");
}

/// Checks codes whose f32 values would exceed a binding: the tensor is kept, but not decoded at once.
pub(crate) fn keeps_more_than_it_decodes(target: &Target) {
    let layout = Fp8Layout {
        shape: [1, 2048, 18_000],
        scheme: Fp8Scheme {
            format: Fp8Format::E4M3,
            granularity: Granularity::Tensor,
        },
    };
    let codes = vec![0x38; 2048 * 18_000];
    let one = HostScales::F32(vec![0.5]);
    let packed = Fp8Tensor::from_codes(&codes, &one, layout, &target.burn()).unwrap();
    match packed.dequantize(FloatDType::F32) {
        Ok(y) => assert_eq!(y.max().into_scalar::<f32>(), 0.5),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let limit = target.capability().limits.max_binding_bytes;
            assert!(limit < 4 * codes.len() as u64, "{error}");
        }
    }
}

/// Checks that each block takes the scale with the least squared error, out of the scale for its largest magnitude and the
/// fifteen above it. A block with a value that isn't finite, or with zeros only, keeps the first. The last block of a row is
/// shorter.
pub(crate) fn least_squares(target: &Target) {
    let (rows, columns, wide) = (7, 70, 32);
    let mut values = normal(rows * columns, 5);
    (values[3], values[columns]) = (f32::INFINITY, f32::NAN);
    values[2 * columns..3 * columns].fill(0.0);
    for (format, margin) in [
        (Fp8Format::E4M3, 0),
        (Fp8Format::E4M3, 1),
        (Fp8Format::E5M2, 0),
    ] {
        let scales = |rule| {
            let quantizer = Quantizer::new(format, block(1, wide)).with_margin(margin);
            let x = tensor(&values, [rows, columns], &target.burn());
            let codes = Fp8Tensor::quantize(x, &quantizer.with_scales(rule)).unwrap();
            match codes.to_scales().unwrap() {
                HostScales::F32(scales) => scales,
                other @ HostScales::E8M0(_) => panic!("{other:?}"),
            }
        };
        let (found, first) = (scales(ScaleRule::LeastSquares), scales(ScaleRule::Largest));
        let blocks = values.chunks(columns).flat_map(|row| row.chunks(wide));
        let mut larger = 0;
        for ((block, found), first) in blocks.zip(found).zip(first) {
            if block.iter().any(|x| !x.is_finite()) || block.iter().all(|x| *x == 0.0) {
                assert_eq!(found, first);
                continue;
            }
            let tried = (0..16).map(|i| first * (i as f32 / 16.0).exp2());
            let least = tried.map(|scale| squares(block, scale, format));
            let least = least.fold(f64::MAX, f64::min);
            let got = squares(block, found, format);
            // A device that divides differently may choose another scale that is as good.
            assert!(got <= least * 1.001, "{got} instead of {least}");
            larger += usize::from(found > first);
        }
        assert!(larger > rows, "{larger} scales of {format:?} are larger");
    }
}

/// The squared error Σ (code · scale − x)² of a block.
fn squares(block: &[f32], scale: f32, format: Fp8Format) -> f64 {
    let apart = |x: &f32| {
        let code = encode_host(x / scale, format, Overflow::Saturate);
        f64::from(decode_host(code, format) * scale) - f64::from(*x)
    };
    block.iter().map(|x| apart(x).powi(2)).sum()
}
