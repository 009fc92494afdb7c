//! What is measured: the FP8 layer, and the float layers that it is compared with.

use super::LinearBench;
use super::data::{HostData, float_problem, input, weight, weights};
use super::turns::{Turns, copies};
use crate::BenchError;
use crate::ceiling::{finish_with, wait};
use crate::place::Place;
use burn::nn;
use burn::tensor::{DType, Device, Tensor, TensorData};
use cubecl::client::Client;
use cubecl::server::Handle;
use moebius::Error;
use moebius::nn::Linear;
use moebius_shaders::grouped_gemm::{self, Choice, Operands, Plan};

pub(super) trait Layer {
    /// One product, and a wait for it.
    fn run(&self) -> Result<(), BenchError>;

    /// y \[m, n\] of one product.
    fn output(&self) -> Result<Vec<f32>, BenchError>;
}

/// A layer on tensors.
pub(super) struct OnTensors<L> {
    /// Copies that take turns.
    pub(super) layers: Turns<L>,
    pub(super) forward: fn(&L, Tensor<2>) -> Result<Tensor<2>, Error>,
    /// \[m, k\].
    pub(super) x: Tensor<2>,
    pub(super) device: Device,
}

/// Our dense product, launched directly.
struct Kernel {
    client: Client,
    plan: Plan,
    operands: Operands,
    weights: Turns<Handle>,
    /// Elements of y, and their type.
    out: (usize, DType),
}

/// A float layer with the same weights, before they were FP8.
pub(super) struct FloatPath {
    pub(super) name: String,
    /// Not ours: it may be less exact than what verifies.
    pub(super) foreign: bool,
    /// Copies of the weights that take turns.
    pub(super) copies: usize,
    pub(super) layer: Box<dyn Layer>,
}

impl FloatPath {
    /// Every float layer worth comparing with on the device.
    ///
    /// Burn's own product takes minutes on CubeCL's CPU runtime, and its barriers leave threads
    /// behind that slow down whatever comes after: its layer on `flex` stands in there. Taking turns
    /// costs it nothing to speak of: idle threads of the runtime yield for 0.2 ms, then they sleep.
    pub(super) fn all(
        bench: &LinearBench,
        place: &Place,
        data: &HostData,
    ) -> Result<Vec<Self>, BenchError> {
        let bytes = bench.dtype.size() as u64 * weights(bench);
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
        Ok(paths)
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
            scales: None,
            bias: None,
            out: client.empty(bench.m * bench.n * problem.element.bytes()),
        };
        Ok(Self {
            name: format!("our {} kernel ({})", problem.element, plan.variant.name()),
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
        let layers = Turns::of(copies, || {
            Linear::new(weight(weights, shape, bench.dtype, &place.device), None)
        })?;
        Ok(Self {
            name: format!("our {} layer", float_problem(bench)?.element),
            foreign: false,
            copies,
            layer: Box::new(OnTensors {
                layers,
                forward: |layer, x| layer.forward(x),
                x: input(bench, &place.device, data),
                device: place.device.clone(),
            }),
        })
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
