//! Burn's own casts to 16-bit floats, which our kernels' neighbours use: to the nearest, ties to even.

use crate::Outcome;
use burn::tensor::{DType, Tensor, TensorData};
use half::{bf16, f16};
use moebius_device::Runtime;
use moebius_tests::target::Target;

pub(crate) fn f16(target: &Target) -> Outcome {
    let capability = target.capability();
    let kernels = !matches!(capability.runtime, Runtime::Flex | Runtime::Xla);
    if kernels && !capability.f16 {
        return Outcome::Unsupported("no f16".into());
    }
    let normal = |bits: &u16| f16::from_bits(*bits).is_normal();
    let values = ties(
        (0..=u16::MAX)
            .filter(normal)
            .map(|bits| f16::from_bits(bits).to_f32()),
        13,
    );
    check(target, DType::F16, values, |x| f16::from_f32(x).to_f32())
}

pub(crate) fn bf16(target: &Target) -> Outcome {
    if !target.capability().bf16 {
        return Outcome::Unsupported("no bf16".into());
    }
    let normal = |bits: &u16| bf16::from_bits(*bits).is_normal();
    let values = ties(
        (0..=u16::MAX)
            .filter(normal)
            .map(|bits| bf16::from_bits(bits).to_f32()),
        16,
    );
    check(target, DType::BF16, values, |x| bf16::from_f32(x).to_f32())
}

/// Each value, the one halfway to the next if that is `dropped` bits of an f32 away, and those around the middle; infinities and NaN.
fn ties(values: impl Iterator<Item = f32>, dropped: u32) -> Vec<f32> {
    let middle = 1 << (dropped - 1);
    let around = [0, middle - 1, middle, middle + 1];
    let beside = |x: f32| around.map(|more| f32::from_bits(x.to_bits() + more));
    let special = [
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
    ];
    values.flat_map(beside).chain(special).collect()
}

fn check(target: &Target, dtype: DType, values: Vec<f32>, want: impl Fn(f32) -> f32) -> Outcome {
    let device = target.burn();
    let compare = |from: DType, data: TensorData| {
        let given = Tensor::<1>::from_data(data, (&device, from));
        // Read as it is stored: where two casts are fused, Mesa 26 leaves the rounding between them out.
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
