//! The layer under measurement and its batch, on their device.

use super::LinearBench;
use super::data::{HostData, float_problem, input, weight, weights};
use super::layers::OnTensors;
use super::turns::{Turns, copies};
use crate::BenchError;
use crate::place::Place;
use burn::tensor::DType;
use moebius::Error;
use moebius::fp8::{ActivationScaling, Quantizer, Weight};
use moebius::nn::Linear;
use moebius_device::{Capability, memory_in_use};
use moebius_ops::grouped_gemm::Problem;
use moebius_ops::scaling::Fp8Scheme;
use moebius_shaders::grouped_gemm::{self, Choice};
use serde::Serialize;

/// Where figures of memory come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BytesOf {
    /// Growth of the live bytes of the device's allocator.
    Allocator,
    /// Sizes of the tensors, on Flex, which has no allocator to ask.
    Tensors,
}

/// Bytes of the weights on the device.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LayerBytes {
    /// Of the FP8 layer: codes, scales, padding.
    pub fp8: u64,
    /// Of the same layer in f32.
    pub f32: u64,
    /// `fp8` / `f32`.
    pub ratio: f64,
    /// Who says so.
    pub of: BytesOf,
}

/// The layer under measurement.
pub(super) struct Setup {
    pub(super) place: Place,
    pub(super) fp8: OnTensors<Linear>,
    pub(super) bytes: LayerBytes,
    /// The kernel variant.
    pub(super) variant: String,
}

impl Setup {
    pub(super) fn new(bench: &LinearBench, data: &HostData) -> Result<Self, BenchError> {
        let place = Place::open(&bench.device)?;
        let variant = place.variant(|device| variant(bench, device))?;
        let device = place.device.clone();
        let live = || -> Result<Option<u64>, BenchError> {
            place.finish()?;
            let client = place.opened.client();
            Ok(client.map(|client| memory_in_use(&client).in_use))
        };
        let before = live()?;
        let shape = [bench.n, bench.k];
        let float = Linear::new(weight(&data.weights, shape, DType::F32, &device), None)?;
        let with_float = live()?;
        let quantizer = Quantizer::new(bench.format, bench.granularity);
        let quantized = || {
            let activations = ActivationScaling::new(bench.activations, &device);
            float.quantize(&quantizer)?.with_activations(activations)
        };
        let layer = quantized()?;
        let with_both = live()?;
        let growth = |from: Option<u64>, to: Option<u64>| Some(to?.saturating_sub(from?));
        let measured = growth(with_float, with_both).zip(growth(before, with_float));
        let (fp8, f32) = measured.unwrap_or((layer.bytes() as u64, 4 * weights(bench)));
        drop(layer);
        let copies = copies(bench, place.opened.capability.is_cpu(), weights(bench));
        Ok(Self {
            fp8: OnTensors {
                layers: Turns::of(copies, quantized)?,
                forward: |layer, x| layer.forward(x),
                x: input(bench, &device, data),
                device,
            },
            bytes: LayerBytes {
                fp8,
                f32,
                ratio: fp8 as f64 / f32 as f64,
                of: measured.map_or(BytesOf::Tensors, |_| BytesOf::Allocator),
            },
            place,
            variant,
        })
    }

    /// Its weight.
    pub(super) fn weight(&self) -> &Weight<2> {
        &self.fp8.layers.first().weight
    }

    /// Bytes of codes and scales without padding.
    pub(super) fn code_bytes(&self, bench: &LinearBench) -> u64 {
        let scales = self.weight().codes();
        let scales = scales.map_or([0; 3], |codes| codes.layout().scales_shape());
        weights(bench) + 4 * scales.iter().product::<usize>() as u64
    }
}

/// The variant that computes the product with FP8 weights, where the device computes that in floats, too.
fn variant(bench: &LinearBench, device: &Capability) -> Result<&'static str, Error> {
    let floats = float_problem(bench)?;
    let problem = Problem {
        fp8: Some(Fp8Scheme {
            format: bench.format,
            granularity: bench.granularity,
        }),
        ..floats
    };
    let plan = |problem| grouped_gemm::plan(problem, device, Choice::default());
    plan(floats)?;
    Ok(plan(problem)?.variant.name())
}
