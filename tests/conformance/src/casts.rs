//! Burn's casts to 16-bit floats, which layers beside our kernels use: to nearest, ties to even. And FP8 casts on the device
//! against the host codec, bit for bit.

use crate::Outcome;
use crate::fp8_gemm::FORMATS;
use crate::tensors::{floats, tensor};
use burn::tensor::{DType, Tensor, TensorData};
use half::{bf16, f16};
use moebius::fp8::{Fp8Format, Overflow, decode, decode_host, encode, encode_host};
use moebius_device::Runtime;
use moebius_ops::fp8::unpack;
use moebius_tests::data::Rng;
use moebius_tests::target::Target;

pub(crate) fn f16(target: &Target) -> Outcome {
    let capability = target.capability();
    let kernels = !matches!(capability.runtime, Runtime::Flex | Runtime::Xla);
    if kernels && !capability.f16 {
        return Outcome::Unsupported("no f16".into());
    }
    let normal = (0..=u16::MAX).map(f16::from_bits).filter(|x| x.is_normal());
    let values = ties(normal.map(f16::to_f32), 13);
    check(target, DType::F16, values, |x| f16::from_f32(x).to_f32())
}

pub(crate) fn bf16(target: &Target) -> Outcome {
    if !target.capability().bf16 {
        return Outcome::Unsupported("no bf16".into());
    }
    let normal = (0..=u16::MAX)
        .map(bf16::from_bits)
        .filter(|x| x.is_normal());
    let values = ties(normal.map(bf16::to_f32), 16);
    check(target, DType::BF16, values, |x| bf16::from_f32(x).to_f32())
}

/// Test values of a cast that drops `dropped` mantissa bits of an f32: each value, the midpoint to the next value, and the
/// midpoint's neighbours; then zeros, infinities, NaN and the largest f32.
fn ties(values: impl Iterator<Item = f32>, dropped: u32) -> Vec<f32> {
    let middle = 1 << (dropped - 1);
    let around = [0, middle - 1, middle, middle + 1];
    let beside = |x: f32| around.map(|more| f32::from_bits(x.to_bits() + more));
    let infinity = f32::INFINITY;
    let special = [0.0, -0.0, infinity, -infinity, f32::NAN, f32::MAX];
    values.flat_map(beside).chain(special).collect()
}

fn check(target: &Target, dtype: DType, values: Vec<f32>, want: impl Fn(f32) -> f32) -> Outcome {
    let device = target.burn();
    let compare = |from: DType, data: TensorData| {
        let given = Tensor::<1>::from_data(data, (&device, from));
        // The cast is read back at once: Mesa 26 omits the rounding between two fused casts.
        let got = given.cast(dtype).into_data();
        for (x, got) in values.iter().zip(got.iter::<f32>()) {
            let want = want(*x);
            let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
            assert!(same, "{x:e} from {from:?}: {got:e} instead of {want:e}");
        }
    };
    compare(DType::F32, TensorData::from(values.as_slice()));
    if target.capability().runtime == Runtime::Cpu {
        let wide: Vec<f64> = values.iter().copied().map(f64::from).collect();
        compare(DType::F64, TensorData::from(wide.as_slice()));
    }
    Outcome::Ran
}

fn check_encode(target: &Target, values: &[f32]) {
    for format in FORMATS {
        for overflow in [Overflow::Saturate, Overflow::Ieee] {
            let x = tensor(values, [values.len()], &target.burn());
            let words = encode(x, format, overflow).unwrap().into_data();
            let words: Vec<u32> = words.iter::<i64>().map(|word| word as u32).collect();
            let got = unpack(&words, values.len());
            for (value, got) in values.iter().zip(got) {
                let (want, bits) = (encode_host(*value, format, overflow), value.to_bits());
                let what = format!("{format:?} {overflow:?} of {value:e} ({bits:#x})");
                assert_eq!(got, want, "{what}");
            }
        }
    }
}

/// Checks every FP8 value, every midpoint with its neighbours, special values, and random magnitudes.
pub(crate) fn encode_edges(target: &Target) {
    let infinity = f32::INFINITY;
    let mut values = vec![
        0.0,
        -0.0,
        infinity,
        -infinity,
        f32::NAN,
        1e30,
        -1e-30,
        1e-45,
    ];
    for format in FORMATS {
        for code in 0..=254u8 {
            let (a, b) = (decode_host(code, format), decode_host(code + 1, format));
            let middle = (a + b) / 2.0;
            for edge in [a, middle] {
                values.extend([edge, edge.next_up(), edge.next_down()]);
            }
        }
    }
    let mut rng = Rng::new(1);
    values.extend((0..4096).map(|_| f32::from_bits(rng.next_u64() as u32)));
    check_encode(target, &values);
}

pub(crate) fn encode_every_half(target: &Target) {
    let every = (0..=u16::MAX).map(|bits| f16::from_bits(bits).to_f32());
    check_encode(target, &every.collect::<Vec<_>>());
}

pub(crate) fn decode_every_code(target: &Target) {
    let words: Vec<i32> = (0..64u32)
        .map(|i| (0x0302_0100 + i * 0x0404_0404) as i32)
        .collect();
    for format in FORMATS {
        let words = Tensor::from_data(TensorData::from(words.as_slice()), &target.burn());
        let got = floats(decode(words, 256, format).unwrap());
        for (code, got) in (0..=255u8).zip(got) {
            let want = decode_host(code, format);
            let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
            assert!(same, "{format:?} {code:#x}: got {got}, want {want}");
        }
    }
}

pub(crate) fn lengths(target: &Target) {
    for len in [0, 1, 3, 4, 5, 1023] {
        let values = Rng::new(len as u64).vec(len, 500.0);
        check_encode(target, &values);
        let (format, saturate) = (Fp8Format::E4M3, Overflow::Saturate);
        let x = tensor(&values, [len], &target.burn());
        let words = encode(x, format, saturate).unwrap();
        let wrong = decode(words.clone(), len + 4, format).unwrap_err();
        let wrong = wrong.to_string();
        assert!(wrong.contains("fp8 words: expected"), "{wrong}");
        let back = floats(decode(words, len, format).unwrap());
        let code = |value: &f32| encode_host(*value, format, saturate);
        let want = values.iter().map(|value| decode_host(code(value), format));
        assert_eq!(back, want.collect::<Vec<_>>());
    }
}
