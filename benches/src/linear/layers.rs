//! The measured layers on their device: the FP8 layer, and the float layers that it is compared with.

use super::LinearBench;
use super::data::{HostData, Turns, blocks, copies, float_problem, input, weight, weights};
use crate::BenchError;
use crate::ceiling::{finish_with, wait};
use crate::place::Place;
use burn::nn;
use burn::tensor::{DType, Device, Tensor, TensorData};
use cubecl::client::Client;
use cubecl::server::Handle;
use moebius::blocks::{BlockFormat, BlockLayout, BlockTensor};
use moebius::fp8::{ActivationScaling, Quantizer, Weight};
use moebius::nn::Linear;
use moebius::{Error, in_large_pages};
use moebius_device::{Capability, memory_in_use};
use moebius_ops::grouped_gemm::sparse24::GROUP;
use moebius_ops::grouped_gemm::{Problem, Stored};
use moebius_ops::scaling::Fp8Scheme;
use moebius_shaders::grouped_gemm::{self, Choice, Operands, Plan};
use serde::Serialize;

/// Source of the numbers of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BytesOf {
    /// Growth of the live bytes in the device's allocator.
    Allocator,
    /// Sizes of the tensors; used on Flex, which has no allocator to ask.
    Tensors,
}

/// Bytes of the weights on the device.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LayerBytes {
    /// Bytes of the FP8 layer: codes, scales and padding.
    pub fp8: u64,
    /// Bytes of the same layer in f32.
    pub f32: u64,
    /// `fp8` divided by `f32`.
    pub ratio: f64,
    /// Source of these numbers.
    pub of: BytesOf,
}

/// The FP8 layer on its device.
pub(super) struct Setup {
    pub(super) place: Place,
    pub(super) fp8: OnTensors<Linear>,
    pub(super) bytes: LayerBytes,
    /// Name of the kernel variant.
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
                layers: loaded(copies, quantized)?,
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

    /// The weight of the FP8 layer.
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

/// Name of the variant that computes the product with FP8 weights; the device has to compute the product in floats,
/// too.
fn variant(bench: &LinearBench, device: &Capability) -> Result<&'static str, Error> {
    let floats = float_problem(bench)?;
    let problem = Problem {
        stored: Stored::Fp8(Fp8Scheme {
            format: bench.format,
            granularity: bench.granularity,
        }),
        ..floats
    };
    let plan = |problem| grouped_gemm::plan(problem, device, Choice::default());
    plan(floats)?;
    Ok(plan(problem)?.variant.name())
}

pub(super) trait Layer {
    /// Computes one product and waits for it.
    fn run(&self) -> Result<(), BenchError>;

    /// Output y \[m, n\] of one product.
    fn output(&self) -> Result<Vec<f32>, BenchError>;
}

/// A layer that takes and returns tensors.
pub(super) struct OnTensors<L> {
    /// Copies of the layer that take turns.
    pub(super) layers: Turns<L>,
    pub(super) forward: fn(&L, Tensor<2>) -> Result<Tensor<2>, Error>,
    /// Input \[m, k\].
    pub(super) x: Tensor<2>,
    pub(super) device: Device,
}

/// Our dense product, launched directly.
struct Kernel {
    client: Client,
    plan: Plan,
    operands: Operands,
    weights: Turns<Handle>,
    /// Number of elements of y, and their type.
    out: (usize, DType),
}

/// Copies of a layer, in the memory that the layers of a loaded model have.
fn loaded(
    copies: usize,
    layer: impl Fn() -> Result<Linear, Error>,
) -> Result<Turns<Linear>, Error> {
    Turns::of(copies, || Ok(in_large_pages(layer()?)))
}

/// Formats of blocks that are measured: the one that most models come in, the plainest with codes, and the one that most files of codes have.
const BLOCKS: [BlockFormat; 3] = [BlockFormat::Bf16, BlockFormat::Q8_0, BlockFormat::Q4K];

/// The weights of a layer beside the FP8 layer.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// The weights before quantisation.
    Floats,
    /// The larger half of them, 2:4.
    Sparse24,
    /// Blocks of codes, which are others.
    Blocks(BlockFormat),
}

/// A layer whose activations are floats, beside the FP8 layer.
pub(super) struct FloatPath {
    pub(super) name: String,
    pub(super) of: Of,
    /// Bytes of the weights.
    pub(super) bytes: u64,
    /// Whether the layer is foreign: it may then be less exact than the check accepts.
    pub(super) foreign: bool,
    /// Copies of the weights that take turns.
    pub(super) copies: usize,
    pub(super) layer: Box<dyn Layer>,
}

impl FloatPath {
    /// Makes every float layer that is worth a comparison on the device, that with 2:4 weights if they are whole groups of four, and those with
    /// blocks if rows are whole blocks.
    ///
    /// Burn's own product takes minutes on CubeCL's CPU runtime, and its barriers leave threads behind that slow down
    /// whatever comes after; Burn's layer on `flex` stands in for it there. Turns with the FP8 layer hardly cost `flex`
    /// anything: idle threads of the runtime yield for 0.2 ms, then sleep.
    pub(super) fn all(
        bench: &LinearBench,
        place: &Place,
        data: &HostData,
    ) -> Result<Vec<Self>, BenchError> {
        let bytes = Self::dense_bytes(bench);
        let copies = copies(bench, place.opened.capability.is_cpu(), bytes);
        let mut paths = Vec::new();
        paths.push(match place.opened.client() {
            Some(client) => Self::kernel(bench, (place, copies), data, client)?,
            None => Self::ours(bench, (place, copies), data)?,
        });
        if !place.on_cpu_runtime() {
            let on = place.opened.device.to_string();
            paths.push(Self::burn(bench, (&place.device, copies), data, &on)?);
        } else if cfg!(feature = "flex") {
            let flex = moebius::open(&moebius::Device::Flex)?;
            paths.push(Self::burn(bench, (&flex, copies), data, "flex")?);
        }
        if bench.k.is_multiple_of(GROUP) {
            paths.push(Self::sparse(bench, place, data)?);
        }
        for format in BLOCKS {
            if format.check(bench.k).is_ok() {
                paths.push(Self::blocks(bench, place, data, format)?);
            }
        }
        Ok(paths)
    }

    fn blocks(
        bench: &LinearBench,
        place: &Place,
        data: &HostData,
        format: BlockFormat,
    ) -> Result<Self, BenchError> {
        let bytes = blocks(bench, format);
        let shape = [1, bench.n, bench.k];
        let layer = || {
            let layout = BlockLayout { shape, format };
            let weights = BlockTensor::from_bytes(&bytes, layout, &place.device)?;
            let weight = Weight::<2>::from_blocks(weights.with_dtype(bench.dtype))?;
            Linear::new(weight, None)
        };
        let size = bytes.len() as u64;
        let copies = copies(bench, place.opened.capability.is_cpu(), size);
        let name = format!("our layer in blocks, {format}");
        let layers = loaded(copies, layer)?;
        let named = (name, Of::Blocks(format), size);
        Ok(Self::of_layers(bench, place, data, named, layers))
    }

    fn sparse(bench: &LinearBench, place: &Place, data: &HostData) -> Result<Self, BenchError> {
        let (weights, shape) = (&data.weights, [bench.n, bench.k]);
        let layer = || {
            let weight = weight(weights, shape, bench.dtype, &place.device);
            Linear::new(weight, None)?.sparsify()
        };
        let bytes = layer()?.bytes() as u64;
        let copies = copies(bench, place.opened.capability.is_cpu(), bytes);
        let name = format!("our {} layer, 2:4", float_problem(bench)?.element);
        let layers = loaded(copies, layer)?;
        let named = (name, Of::Sparse24, bytes);
        Ok(Self::of_layers(bench, place, data, named, layers))
    }

    /// Bytes of all weights.
    fn dense_bytes(bench: &LinearBench) -> u64 {
        bench.dtype.size() as u64 * weights(bench)
    }

    fn kernel(
        bench: &LinearBench,
        (place, copies): (&Place, usize),
        data: &HostData,
        client: Client,
    ) -> Result<Self, BenchError> {
        let problem = float_problem(bench)?;
        let plan = grouped_gemm::plan(problem, &place.opened.capability, Choice::default())?;
        let buffer = |values: &[f32]| {
            let data = TensorData::new(values.to_vec(), [values.len()]);
            client.create_from_slice(data.convert_dtype(bench.dtype).as_bytes())
        };
        let weights = Turns::of(copies, || Ok::<_, BenchError>(buffer(&data.weights)))?;
        let operands = Operands {
            x: buffer(&data.x),
            segments: None,
            weights: weights.first().clone(),
            scales_or_places: None,
            bias: None,
            out: client.empty(bench.m * bench.n * problem.element.bytes()),
        };
        Ok(Self {
            name: format!("our {} kernel ({})", problem.element, plan.variant.name()),
            of: Of::Floats,
            bytes: Self::dense_bytes(bench),
            foreign: false,
            copies,
            layer: Box::new(Kernel {
                client,
                plan,
                operands,
                weights,
                out: (bench.m * bench.n, bench.dtype),
            }),
        })
    }

    fn ours(
        bench: &LinearBench,
        (place, copies): (&Place, usize),
        data: &HostData,
    ) -> Result<Self, BenchError> {
        let (weights, shape) = (&data.weights, [bench.n, bench.k]);
        let layers = loaded(copies, || {
            Linear::new(weight(weights, shape, bench.dtype, &place.device), None)
        })?;
        let name = format!("our {} layer", float_problem(bench)?.element);
        let named = (name, Of::Floats, Self::dense_bytes(bench));
        Ok(Self::of_layers(bench, place, data, named, layers))
    }

    /// A layer of ours, with the bytes of its weights, whose copies take turns.
    fn of_layers(
        bench: &LinearBench,
        place: &Place,
        data: &HostData,
        (name, of, bytes): (String, Of, u64),
        layers: Turns<Linear>,
    ) -> Self {
        Self {
            name,
            of,
            bytes,
            foreign: false,
            copies: layers.count(),
            layer: Box::new(OnTensors {
                layers,
                forward: |layer, x| layer.forward(x),
                x: input(bench, &place.device, data),
                device: place.device.clone(),
            }),
        }
    }

    fn burn(
        bench: &LinearBench,
        (device, copies): (&Device, usize),
        data: &HostData,
        on: &str,
    ) -> Result<Self, BenchError> {
        let (weights, shape) = (data.transposed(bench), [bench.k, bench.n]);
        let layers = Turns::of(copies, || {
            Ok::<_, BenchError>(nn::Linear {
                weight: weight(&weights, shape, bench.dtype, device),
                bias: None,
            })
        })?;
        Ok(Self {
            name: format!("Burn's nn::Linear on {on}"),
            of: Of::Floats,
            bytes: Self::dense_bytes(bench),
            foreign: true,
            copies,
            layer: Box::new(OnTensors {
                layers,
                forward: |layer, x| Ok(layer.forward(x)),
                x: input(bench, device, data),
                device: device.clone(),
            }),
        })
    }
}

impl Layer for Kernel {
    fn run(&self) -> Result<(), BenchError> {
        let operands = Operands {
            weights: self.weights.next().clone(),
            ..self.operands.clone()
        };
        grouped_gemm::launch(&self.client, &self.plan, operands);
        wait(&self.client)
    }

    fn output(&self) -> Result<Vec<f32>, BenchError> {
        self.run()?;
        let bytes = self.client.read_one(self.operands.out.clone());
        let bytes = bytes.map_err(BenchError::device)?;
        let (len, dtype) = self.out;
        let bytes = bytes[..len * dtype.size()].to_vec();
        let y = TensorData::from_bytes_vec(bytes, [len], dtype);
        Ok(y.iter::<f32>().collect())
    }
}

impl<L> Layer for OnTensors<L> {
    fn run(&self) -> Result<(), BenchError> {
        let y = (self.forward)(self.layers.next(), self.x.clone())?;
        finish_with(y, &self.device)
    }

    fn output(&self) -> Result<Vec<f32>, BenchError> {
        let y = (self.forward)(self.layers.next(), self.x.clone())?;
        y.try_into_vec_as::<f32>().map_err(BenchError::device)
    }
}
