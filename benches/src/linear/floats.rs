//! The float layers that an FP8 layer is compared with.

use super::LinearBench;
use super::data::HostData;
use super::setup::{Setup, float_problem, input, weights};
use super::turns::{Turns, copies};
use crate::BenchError;
use crate::ceiling::{finish_with, wait};
use burn::module::Param;
use burn::nn;
use burn::tensor::{DType, Device, Tensor, TensorData};
use cubecl::client::Client;
use cubecl::server::Handle;
use moebius::nn::Linear;
use moebius_shaders::grouped_gemm::{self, Choice, Operands, Plan};

/// A float layer with the same weights, before they were FP8.
pub(super) struct FloatPath {
    pub(super) name: String,
    /// Not ours: it may be less exact than what verifies.
    pub(super) foreign: bool,
    /// Copies of the weights that take turns.
    pub(super) copies: usize,
    pub(super) layer: Box<dyn FloatLayer>,
}

pub(super) trait FloatLayer {
    /// One product, and a wait for it.
    fn run(&self) -> Result<(), BenchError>;

    /// y \[m, n\] of one product.
    fn output(&self) -> Result<Vec<f32>, BenchError>;
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

/// A layer on tensors: ours on a device without kernels, or Burn's.
struct OnTensors {
    device: Device,
    forward: Box<dyn Fn(Tensor<2>) -> Result<Tensor<2>, BenchError>>,
    x: Tensor<2>,
}

impl FloatPath {
    /// Every float layer worth comparing with on the device.
    ///
    /// Burn's own product takes minutes on CubeCL's CPU runtime, and its barriers leave threads
    /// behind that slow down whatever comes after: its layer on `flex` stands in there. Taking turns
    /// costs it nothing to speak of: idle threads of the runtime yield for 0.2 ms, then they sleep.
    pub(super) fn all(
        bench: &LinearBench,
        setup: &Setup,
        data: &HostData,
    ) -> Result<Vec<Self>, BenchError> {
        let bytes = bench.dtype.size() as u64 * weights(bench);
        let copies = copies(bench, setup.opened.capability.is_cpu(), bytes);
        let mut paths = Vec::new();
        paths.push(match setup.opened.client() {
            Some(client) => Self::kernel(bench, (setup, copies), data, client)?,
            None => Self::ours(bench, (setup, copies), data)?,
        });
        if setup.opened.capability.cpu_cores.is_none() || setup.opened.client().is_none() {
            let on = setup.name();
            paths.push(Self::burn(bench, (&setup.device, copies), data, on)?);
        } else if cfg!(feature = "flex") {
            let flex = moebius::open(&moebius::Device::Flex)?;
            let on = "flex".to_string();
            paths.push(Self::burn(bench, (&flex, copies), data, on)?);
        }
        Ok(paths)
    }

    fn kernel(
        bench: &LinearBench,
        (setup, copies): (&Setup, usize),
        data: &HostData,
        client: Client,
    ) -> Result<Self, BenchError> {
        let problem = float_problem(bench)?;
        let plan = grouped_gemm::plan(problem, &setup.opened.capability, Choice::default())?;
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
        (setup, copies): (&Setup, usize),
        data: &HostData,
    ) -> Result<Self, BenchError> {
        let device = &setup.device;
        let layers = Turns::of(copies, || {
            let weight = TensorData::new(data.weights.clone(), [bench.n, bench.k]);
            let weight = weight.convert_dtype(bench.dtype);
            let weight = Tensor::<2>::from_data(weight, (device, bench.dtype));
            Linear::new(Param::from_tensor(weight).set_require_grad(false), None)
        })?;
        Ok(Self {
            name: format!("our {} layer", float_problem(bench)?.element),
            foreign: false,
            copies,
            layer: Box::new(OnTensors {
                device: device.clone(),
                forward: Box::new(move |x| Ok(layers.next().forward(x)?)),
                x: input(bench, device, data),
            }),
        })
    }

    fn burn(
        bench: &LinearBench,
        (device, copies): (&Device, usize),
        data: &HostData,
        on: String,
    ) -> Result<Self, BenchError> {
        let weight = TensorData::new(data.transposed(bench), [bench.k, bench.n]);
        let weight = weight.convert_dtype(bench.dtype);
        let layers = Turns::of(copies, || {
            let weight = Tensor::from_data(weight.clone(), (device, bench.dtype));
            Ok::<_, BenchError>(nn::Linear {
                weight: Param::from_tensor(weight).set_require_grad(false),
                bias: None,
            })
        })?;
        Ok(Self {
            name: format!("Burn's nn::Linear on {on}"),
            foreign: true,
            copies,
            layer: Box::new(OnTensors {
                device: device.clone(),
                forward: Box::new(move |x| Ok(layers.next().forward(x))),
                x: input(bench, device, data),
            }),
        })
    }
}

impl FloatLayer for Kernel {
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

impl FloatLayer for OnTensors {
    fn run(&self) -> Result<(), BenchError> {
        finish_with((self.forward)(self.x.clone())?, &self.device)
    }

    fn output(&self) -> Result<Vec<f32>, BenchError> {
        let y = (self.forward)(self.x.clone())?;
        y.try_into_vec_as::<f32>().map_err(BenchError::device)
    }
}
