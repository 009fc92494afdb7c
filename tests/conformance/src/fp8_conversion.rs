//! The device's FP8 conversion instructions against integer arithmetic, bit for bit.

use crate::Outcome;
use crate::fp8_gemm::{Coded, FORMATS, with_codes};
use crate::grouped_gemm::with;
use cubecl::client::Client;
use half::{bf16, f16};
use moebius_device::Capability;
use moebius_ops::Element;
use moebius_ops::fp8::{Fp8Format, Overflow, Problem, decode_host, encode_host, unpack};
use moebius_ops::grouped_gemm;
use moebius_ops::quantize;
use moebius_ops::scaling::Granularity;
use moebius_shaders::ProductHow;
use moebius_shaders::fp8::{Conversion, Plan, launch_decode, launch_encode, plan};
use moebius_shaders::grouped_gemm::Variant;
use moebius_shaders::quantize as kernels;
use moebius_tests::target::{Target, download_f32, download_u32, poisoned, upload_f32, upload_u32};

/// Runs a check on a device that has conversion instructions; elsewhere the outcome is unsupported.
fn by_instructions(target: &Target, check: impl Fn(&Client, &Capability)) -> Outcome {
    let client = target.client().unwrap();
    let device = target.capability();
    if let Err(refusal) = Conversion::Instructions.supported("fp8_cast", device) {
        return Outcome::Unsupported(refusal.to_string());
    }
    check(&client, device);
    Outcome::Ran
}

fn cast(len: usize, format: Fp8Format, device: &Capability) -> Plan {
    let plan = plan(Problem::new(len, len.div_ceil(4), format).unwrap(), device).unwrap();
    plan.by(Conversion::Instructions, device).unwrap()
}

/// Every f16 and every bf16, and the f32s on both sides of the midpoint between two codes.
fn values() -> Vec<f32> {
    let every = 0..=u16::MAX;
    let halves = every.clone().map(|bits| f16::from_bits(bits).to_f32());
    let shorts = every.map(|bits| bf16::from_bits(bits).to_f32());
    let mut values: Vec<f32> = halves.chain(shorts).collect();
    for format in FORMATS {
        for code in 0..=254u8 {
            let middle = (decode_host(code, format) + decode_host(code + 1, format)) / 2.0;
            values.extend([middle, middle.next_up(), middle.next_down()]);
        }
    }
    values
}

pub(crate) fn every_value(target: &Target) -> Outcome {
    let values = values();
    by_instructions(target, |client, device| {
        for (format, overflow) in FORMATS
            .into_iter()
            .flat_map(|format| [(format, Overflow::Saturate), (format, Overflow::Ieee)])
        {
            let plan = cast(values.len(), format, device);
            let words = values.len().div_ceil(4);
            let out = poisoned(client, words);
            launch_encode(
                client,
                &plan,
                overflow,
                upload_f32(client, &values),
                out.clone(),
            );
            let codes = unpack(&download_u32(client, out, words), values.len());
            for (value, code) in values.iter().zip(codes) {
                let want = encode_host(*value, format, overflow);
                assert_eq!(code, want, "{format:?} {overflow:?} of {value:e}");
            }
        }
    })
}

pub(crate) fn every_code(target: &Target) -> Outcome {
    let words: Vec<u32> = (0..64).map(|i| 0x0302_0100 + i * 0x0404_0404).collect();
    by_instructions(target, |client, device| {
        for format in FORMATS {
            let (plan, out) = (cast(256, format, device), poisoned(client, 256));
            launch_decode(client, &plan, upload_u32(client, &words), out.clone());
            for (code, got) in (0..=255u8).zip(download_f32(client, out, 256)) {
                let want = decode_host(code, format);
                let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
                assert!(same, "{format:?} {code:#x}: got {got}, want {want}");
            }
        }
    })
}

/// Checks codes, scales and values against those of integer arithmetic.
pub(crate) fn quantize(target: &Target) -> Outcome {
    let x = crate::quantize::hostile(5 * 512, 3);
    by_instructions(target, |client, device| {
        for (format, granularity) in FORMATS.into_iter().flat_map(|format| {
            let kinds = [
                Granularity::of_blocks(1, 128),
                Granularity::Row,
                Granularity::Mx,
            ];
            kinds.map(|granularity| (format, granularity))
        }) {
            let problem = quantize::Problem::new([1, 5, 512], Element::F32, granularity, format);
            let problem = problem.unwrap();
            let (words, scales) = (problem.words(), problem.scales());
            let run = |conversion| {
                let plan = kernels::plan(problem, device).unwrap();
                let plan = plan.by(conversion, device).unwrap();
                let buffers = kernels::Buffers {
                    values: upload_f32(client, &x),
                    words: poisoned(client, words),
                    scales: poisoned(client, scales),
                };
                kernels::launch(client, &plan, buffers.clone());
                let codes = download_u32(client, buffers.words.clone(), words);
                kernels::launch_by(client, &plan, buffers.clone());
                let by_scales = download_u32(client, buffers.words.clone(), words);
                let values = poisoned(client, x.len());
                let back = kernels::Buffers {
                    values: values.clone(),
                    ..buffers
                };
                kernels::launch_dequantize(client, &plan, back);
                (
                    codes,
                    by_scales,
                    without_nan(download_u32(client, values, x.len())),
                )
            };
            assert_eq!(run(Conversion::Instructions), run(Conversion::Bits));
        }
    })
}

/// Replaces every NaN by the same one, since no device promises the bits of a NaN.
fn without_nan(bits: Vec<u32>) -> Vec<u32> {
    let nan = |bits: &u32| bits & 0x7FFF_FFFF > 0x7F80_0000;
    bits.into_iter()
        .map(|bits| if nan(&bits) { 0x7FC0_0000 } else { bits })
        .collect()
}

/// Checks that weights decoded by instructions give the same products as weights decoded by integer arithmetic.
pub(crate) fn products(target: &Target) -> Outcome {
    by_instructions(target, |_, _| {
        for format in FORMATS {
            for (variant, element) in [
                (Variant::Unit, Element::F32),
                (Variant::Gemv, Element::F32),
                (Variant::TensorCore, Element::F16),
            ] {
                let dense = grouped_gemm::Problem::dense(70, 200, 392).unwrap();
                let dense = with(dense, |p| p.element = element);
                let problem = with_codes(dense, format, Granularity::of_blocks(128, 128));
                let product = Coded::random(problem);
                let run = |conversion| {
                    let how = ProductHow {
                        variant: Some(variant),
                        conversion,
                    };
                    product.bits(target, how)
                };
                let (got, want) = (run(Conversion::Instructions), run(Conversion::Bits));
                assert_eq!(got, want, "{variant:?} {format:?}");
            }
        }
    })
}
