//! The layer under measurement and its batch, on their device.

use super::LinearBench;
use super::data::HostData;
use super::turns::{Turns, copies};
use crate::ceiling::{finish, finish_with};
use crate::options::element;
use crate::{BenchError, instructions};
use burn::module::Param;
use burn::tensor::{DType, Device, Tensor, TensorData};
use moebius::Error;
use moebius::fp8::{ActivationScaling, Quantizer};
use moebius::nn::Linear;
use moebius_device::{Opened, memory_in_use};
use moebius_host::Simd;
use moebius_ops::Mismatch;
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
    pub(super) opened: Opened,
    /// Vector instructions that run.
    pub(super) simd: Option<Simd>,
    pub(super) device: Device,
    pub(super) layers: Turns<Linear>,
    /// \[m, k\].
    pub(super) x: Tensor<2>,
    pub(super) bytes: LayerBytes,
    /// The kernel variant, `portable` where there are no kernels.
    pub(super) variant: String,
}

impl Setup {
    pub(super) fn new(bench: &LinearBench, data: &HostData) -> Result<Self, BenchError> {
        let opened = moebius_device::open(&bench.device).map_err(Error::from)?;
        let simd = instructions(&opened.device, &opened.capability)?;
        let device = moebius::open(&opened.device)?;
        let variant = variant(bench, &opened)?;
        let live = || -> Result<Option<u64>, BenchError> {
            finish(&device)?;
            let client = opened.client();
            Ok(client.map(|client| memory_in_use(&client).in_use))
        };
        let before = live()?;
        let weight = TensorData::new(data.weights.clone(), [bench.n, bench.k]);
        let weight = Tensor::from_data(weight, (&device, DType::F32));
        let float = Linear::new(Param::from_tensor(weight).set_require_grad(false), None)?;
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
        let copies = copies(bench, opened.capability.is_cpu(), weights(bench));
        let layers = Turns::of(copies, quantized)?;
        let bytes = LayerBytes {
            fp8,
            f32,
            ratio: fp8 as f64 / f32 as f64,
            of: measured.map_or(BytesOf::Tensors, |_| BytesOf::Allocator),
        };
        Ok(Self {
            x: input(bench, &device, data),
            opened,
            simd,
            device,
            layers,
            bytes,
            variant,
        })
    }

    /// The device's name on the command line.
    pub(super) fn name(&self) -> String {
        self.opened.device.to_string()
    }

    /// One forward, and a wait for it.
    pub(super) fn forward(&self) -> Result<(), BenchError> {
        let y = self.layers.next().forward(self.x.clone())?;
        finish_with(y, &self.device)
    }

    /// y \[m, n\] of one forward.
    pub(super) fn output(&self) -> Result<Vec<f32>, BenchError> {
        let y = self.layers.next().forward(self.x.clone())?;
        y.try_into_vec_as::<f32>().map_err(BenchError::device)
    }

    /// Bytes of codes and scales without padding.
    pub(super) fn code_bytes(&self, bench: &LinearBench) -> u64 {
        let scales = self.layers.first().weight.codes();
        let scales = scales.map_or([0; 3], |codes| codes.layout().scales_shape());
        weights(bench) + 4 * scales.iter().product::<usize>() as u64
    }
}

/// Weights of the layer.
pub(super) fn weights(bench: &LinearBench) -> u64 {
    bench.n as u64 * bench.k as u64
}

/// x \[m, k\] on a device.
pub(super) fn input(bench: &LinearBench, device: &Device, data: &HostData) -> Tensor<2> {
    let x = TensorData::new(data.x.clone(), [bench.m, bench.k]).convert_dtype(bench.dtype);
    Tensor::from_data(x, (device, bench.dtype))
}

/// The product in floats.
///
/// # Errors
/// [`ErrorKind::Shape`](moebius::ErrorKind::Shape) for a size of 0 or one too large,
/// [`ErrorKind::Config`](moebius::ErrorKind::Config) for another type than f32, f16 and bf16.
pub(super) fn float_problem(bench: &LinearBench) -> Result<Problem, Error> {
    if bench.m == 0 {
        return Err(Mismatch::new("rows", "at least 1", bench.m).into());
    }
    Ok(Problem {
        element: element(bench.dtype)?,
        ..Problem::dense(bench.m, bench.n, bench.k)?
    })
}

/// How the device computes the product; asked before anything is put on it, because Burn panics
/// where a device can't hold a type.
fn variant(bench: &LinearBench, opened: &Opened) -> Result<String, Error> {
    let floats = float_problem(bench)?;
    let problem = Problem {
        fp8: Some(Fp8Scheme {
            format: bench.format,
            granularity: bench.granularity,
        }),
        ..floats
    };
    if opened.client().is_none() {
        return Ok("portable".to_string());
    }
    let plan = |problem| grouped_gemm::plan(problem, &opened.capability, Choice::default());
    plan(floats)?;
    Ok(plan(problem)?.variant.name().to_string())
}
