//! Layers as large as those of published models: Qwen3-30B-A3B's 128 experts of 2048 × 768, 8 per token.

use crate::Outcome;
use crate::moe_layer::supports;
use crate::tensors::{floats, integers};
use burn::tensor::{DType, Distribution, Int, Tensor, TensorData};
use moebius::Error;
use moebius::moe::{Activation, MoeConfig, MoeLayer, MoeOutput, MoeWeights, RouteConfig};
use moebius_device::{DeviceKind, Runtime};
use moebius_ops::Element;
use moebius_tests::elements::exact;
use moebius_tests::target::Target;
use moebius_tests::tolerance::{assert_close, rel_l2};
use std::sync::{Mutex, PoisonError};

const HIDDEN: usize = 2048;
const INTER: usize = 768;
const EXPERTS: usize = 128;
const TOP_K: usize = 8;

/// The number of experts drawn at random; the others are multiples of these, because drawing 1.2 GB takes longer than the rest
/// of the case.
const DRAWN: usize = 16;

/// Makes a layer with 1.2 GB of weights directly in their own type: through f32 would take three times the memory.
fn layer(target: &Target, dtype: DType) -> MoeLayer {
    let device = target.burn();
    fn uniform<const D: usize>(
        shape: [usize; D],
        device: &burn::tensor::Device,
        dtype: DType,
    ) -> Tensor<D> {
        let bound = (3.0 / shape[D - 1] as f64).sqrt();
        Tensor::random(shape, Distribution::Uniform(-bound, bound), (device, dtype))
    }
    let stack = |[rows, columns]: [usize; 2]| -> Tensor<3> {
        let drawn = uniform([1, DRAWN, rows, columns], &device, dtype);
        let factors: Vec<f32> = (0..EXPERTS)
            .map(|e| 0.7 + 0.6 * e as f32 / EXPERTS as f32)
            .collect();
        let factors = TensorData::new(factors, [EXPERTS / DRAWN, DRAWN, 1, 1]).convert_dtype(dtype);
        let all = drawn * Tensor::from_data(factors, (&device, dtype));
        all.reshape([EXPERTS, rows, columns])
    };
    let weights = MoeWeights {
        router: uniform([EXPERTS, HIDDEN], &device, dtype),
        w_in: stack([2 * INTER, HIDDEN]),
        b_in: None,
        w_out: stack([HIDDEN, INTER]),
        b_out: None,
    };
    let config = MoeConfig::new(HIDDEN, INTER, EXPERTS)
        .with_router(RouteConfig::new(TOP_K))
        .with_gated(true)
        .with_activation(Activation::Silu);
    config.with_weights(weights).unwrap()
}

/// The layer of the previous case, reused on the same device: only one is held at a time.
static LEFT: Mutex<Option<(&str, MoeLayer)>> = Mutex::new(None);

/// Checks the outputs of a few tokens in f64, given the device's choice of experts.
fn check(layer: &MoeLayer, x: &Tensor<2>, out: &MoeOutput<2>) {
    let weights = layer.weights().unwrap();
    let matrix = |stack: &Tensor<3>, e: usize| floats(stack.clone().narrow(0, e, 1));
    for token in [0, x.dims()[0] / 2, x.dims()[0] - 1] {
        let row = |tensor: &Tensor<2>| floats(tensor.clone().narrow(0, token, 1));
        let chosen: Tensor<2, Int> = out.routing.indices.clone().narrow(0, token, 1);
        let x = exact(&row(x));
        let mut want = vec![0.0; HIDDEN];
        for (e, weight) in integers(chosen).iter().zip(row(&out.routing.weights)) {
            let [w_in, w_out] = [&weights.w_in, &weights.w_out].map(|w| matrix(w, *e as usize));
            let dot = |row: &[f32], with: &[f64]| -> f64 {
                row.iter().zip(with).map(|(a, b)| f64::from(*a) * b).sum()
            };
            let pre: Vec<f64> = w_in.chunks(HIDDEN).map(|row| dot(row, &x)).collect();
            let silu = |x: f64| Activation::Silu.reference(x);
            let hidden: Vec<f64> = (0..INTER).map(|c| silu(pre[c]) * pre[INTER + c]).collect();
            for (sum, row) in want.iter_mut().zip(w_out.chunks(INTER)) {
                *sum += f64::from(weight) * dot(row, &hidden);
            }
        }
        assert_close("y", &row(&out.y), &want, rel_l2(Element::F16));
    }
}

fn run(target: &Target, tokens: usize, keep: bool) -> Result<(), Error> {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = left.take().filter(|(name, _)| *name == target.name);
    let device = target.burn();
    supports(target, DType::F16)?;
    let layer = kept.map_or_else(|| layer(target, DType::F16), |(_, layer)| layer);
    let normal = Distribution::Normal(0.0, 1.0);
    let x = Tensor::<2>::random([tokens, HIDDEN], normal, (&device, DType::F16));
    check(&layer, &x, &layer.forward(x.clone())?);
    *left = keep.then_some((target.name, layer));
    Ok(())
}

pub(crate) fn few_tokens_f16(target: &Target) -> Result<(), Error> {
    run(target, 16, !slow(target))
}

/// Checks a forward of 309 GFLOP, which takes a second on two CPU cores and minutes on a software adapter.
pub(crate) fn many_tokens_f16(target: &Target) -> Outcome {
    if slow(target) {
        return Outcome::Unsupported("a software adapter takes minutes".into());
    }
    run(target, 4096, false).into()
}

/// Whether the target is a software adapter, a CPU that emulates a GPU.
pub(crate) fn slow(target: &Target) -> bool {
    let capability = target.capability();
    capability.kind == DeviceKind::Cpu
        && matches!(capability.runtime, Runtime::Wgpu | Runtime::Vulkan)
}
