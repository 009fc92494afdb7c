//! q, k and v on the device under measurement.

use super::AttentionBench;
use super::ways::{Output, Way};
use crate::ceiling::{finish, finish_with};
use crate::{BenchError, instructions};
use burn::tensor::{Device, Distribution, Tensor};
use moebius::Error;
use moebius_device::Opened;
use moebius_host::Simd;
use moebius_ops::attention::Problem;
use moebius_shaders::attention;

/// q \[B, Hq, Sq, D\], k and v \[B, Hkv, Skv, D\], or their gradients.
pub(super) type Operands = [Tensor<4>; 3];

/// What is measured, on its device.
pub(super) struct Setup {
    bench: AttentionBench,
    pub(super) opened: Opened,
    /// Vector instructions that run.
    pub(super) simd: Option<Simd>,
    /// Without the recording of gradients.
    pub(super) device: Device,
    /// The kernel variant, `portable` where there are no kernels.
    pub(super) variant: String,
    /// On a device that records gradients where they are measured.
    pub(super) operands: Operands,
    /// \[B, Hq, Sq, D\] where gradients are measured.
    pub(super) d_o: Option<Tensor<4>>,
}

impl Setup {
    pub(super) fn new(bench: &AttentionBench) -> Result<Self, BenchError> {
        let problem = bench.problem()?;
        let opened = moebius_device::open(&bench.device).map_err(Error::from)?;
        let simd = instructions(&opened.device, &opened.capability)?;
        let device = moebius::open(&opened.device)?;
        let variant = variant(problem, &opened)?;
        let on = if bench.backward {
            device.clone().autodiff()
        } else {
            device.clone()
        };
        let random = |heads, tokens| {
            let shape = [bench.batch, heads, tokens, bench.head_dim];
            let normal = Distribution::Normal(0.0, 1.0);
            Tensor::<4>::random(shape, normal, &on).cast(bench.dtype)
        };
        let leaf = |heads, tokens| random(heads, tokens).set_require_grad(bench.backward);
        let operands = [
            leaf(bench.heads, bench.queries()),
            leaf(bench.kv_heads(), bench.keys()),
            leaf(bench.kv_heads(), bench.keys()),
        ];
        let d_o = bench.backward.then(|| random(bench.heads, bench.queries()));
        finish(&device)?;
        Ok(Self {
            bench: bench.clone(),
            opened,
            simd,
            device,
            variant,
            operands,
            d_o,
        })
    }

    /// Whether CubeCL computes on a processor.
    pub(super) fn on_cpu_runtime(&self) -> bool {
        self.opened.capability.cpu_cores.is_some() && self.opened.client().is_some()
    }

    /// What is timed: a forward, with the gradients of Σ o ∘ do where they are measured, and a wait for it.
    pub(super) fn run(&self, way: Way) -> Result<(), BenchError> {
        match &self.d_o {
            Some(d_o) => finish_with(self.both(way, d_o)?, &self.device),
            None => finish_with(self.forward(way)?, &self.device),
        }
    }

    pub(super) fn forward(&self, way: Way) -> Result<Output, Error> {
        way.forward(&self.bench, self.operands.clone())
    }

    /// A forward, and the gradients of q, k and v.
    pub(super) fn both(&self, way: Way, d_o: &Tensor<4>) -> Result<(Output, Operands), BenchError> {
        let out = self.forward(way)?;
        let gradients = (out.o.clone() * d_o.clone()).sum().backward();
        let of = |operand: &Tensor<4>| {
            let missing = || BenchError::device("the backward pass leaves out a gradient");
            operand.grad(&gradients).ok_or_else(missing)
        };
        let [q, k, v] = &self.operands;
        Ok((out, [of(q)?, of(k)?, of(v)?]))
    }
}

/// How the device computes the forward; asked before anything is put on it, because Burn panics where a device can't hold a type.
fn variant(problem: Problem, opened: &Opened) -> Result<String, BenchError> {
    if opened.client().is_none() {
        return Ok("portable".to_string());
    }
    let plan = attention::plan(problem, None, &opened.capability).map_err(Error::from)?;
    Ok(plan.variant.name().to_string())
}
