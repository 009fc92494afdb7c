//! The float layers that an FP8 layer is compared with.

use super::LinearBench;
use super::data::HostData;
use super::setup::{Setup, float_problem, input};
use crate::BenchError;
use crate::ceiling::{finish_with, wait};
use burn::module::Param;
use burn::nn;
use burn::tensor::{DType, Device, Tensor, TensorData};
use cubecl::client::Client;
use moebius_shaders::grouped_gemm::{self, Choice, Operands, Plan};

/// A float layer with the same weights, before they were FP8.
pub(super) struct FloatPath {
    pub(super) name: String,
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
    /// Elements of y, and their type.
    out: (usize, DType),
}

/// Burn's layer.
struct Burn {
    device: Device,
    layer: nn::Linear,
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
        let mut paths = Vec::new();
        if let Some(client) = setup.opened.client() {
            paths.push(Self::kernel(bench, setup, data, client)?);
        }
        if setup.opened.capability.cpu_cores.is_none() || setup.opened.client().is_none() {
            paths.push(Self::burn(bench, &setup.device, data, setup.name()));
        } else if cfg!(feature = "flex") {
            let flex = moebius::open(&moebius::Device::Flex)?;
            paths.push(Self::burn(bench, &flex, data, "flex".to_string()));
        }
        Ok(paths)
    }

    fn kernel(
        bench: &LinearBench,
        setup: &Setup,
        data: &HostData,
        client: Client,
    ) -> Result<Self, BenchError> {
        let problem = float_problem(bench)?;
        let plan = grouped_gemm::plan(problem, &setup.opened.capability, Choice::default())?;
        let buffer = |values: &[f32]| {
            let data = TensorData::new(values.to_vec(), [values.len()]);
            client.create_from_slice(data.convert_dtype(bench.dtype).as_bytes())
        };
        let operands = Operands {
            x: buffer(&data.x),
            segments: None,
            weights: buffer(&data.weights),
            scales: None,
            bias: None,
            out: client.empty(bench.m * bench.n * problem.element.bytes()),
        };
        Ok(Self {
            name: format!("our {} kernel ({})", problem.element, plan.variant.name()),
            layer: Box::new(Kernel {
                client,
                plan,
                operands,
                out: (bench.m * bench.n, bench.dtype),
            }),
        })
    }

    fn burn(bench: &LinearBench, device: &Device, data: &HostData, on: String) -> Self {
        let weight = TensorData::new(data.transposed(bench), [bench.k, bench.n]);
        let weight = weight.convert_dtype(bench.dtype);
        let weight = Tensor::from_data(weight, (device, bench.dtype));
        Self {
            name: format!("Burn's nn::Linear on {on}"),
            layer: Box::new(Burn {
                device: device.clone(),
                layer: nn::Linear {
                    weight: Param::from_tensor(weight).set_require_grad(false),
                    bias: None,
                },
                x: input(bench, device, data),
            }),
        }
    }
}

impl FloatLayer for Kernel {
    fn run(&self) -> Result<(), BenchError> {
        grouped_gemm::launch(&self.client, &self.plan, self.operands.clone());
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

impl FloatLayer for Burn {
    fn run(&self) -> Result<(), BenchError> {
        let y = self.layer.forward(self.x.clone());
        finish_with(y, &self.device)
    }

    fn output(&self) -> Result<Vec<f32>, BenchError> {
        let y = self.layer.forward(self.x.clone());
        y.try_into_vec_as::<f32>().map_err(BenchError::device)
    }
}
