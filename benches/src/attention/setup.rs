//! q, k and v on the device under measurement.

use super::AttentionBench;
use super::ways::{Output, Way};
use crate::BenchError;
use crate::place::Place;
use burn::tensor::{Distribution, Tensor};
use moebius::Error;
use moebius_shaders::attention;

/// q \[B, Hq, Sq, D\], k and v \[B, Hkv, Skv, D\], or their gradients.
pub(super) type Operands = [Tensor<4>; 3];

/// What is measured, on its device.
pub(super) struct Setup {
    bench: AttentionBench,
    pub(super) place: Place,
    /// The kernel variant of the forward.
    pub(super) variant: String,
    /// On a device that records gradients where they are measured.
    pub(super) operands: Operands,
    /// \[B, Hq, Sq, D\] where gradients are measured.
    pub(super) d_o: Option<Tensor<4>>,
}

impl Setup {
    pub(super) fn new(bench: &AttentionBench) -> Result<Self, BenchError> {
        let problem = bench.problem()?;
        let place = Place::open(&bench.device)?;
        let variant = place.variant(|device| {
            let plan = attention::plan(problem, None, device)?;
            Ok(plan.variant.name())
        })?;
        let device = place.device.clone();
        let on = if bench.backward {
            device.autodiff()
        } else {
            device
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
        place.finish()?;
        Ok(Self {
            bench: bench.clone(),
            place,
            variant,
            operands,
            d_o,
        })
    }

    /// What is timed: a forward, with the gradients of Σ o ∘ do where they are measured, and a wait for it.
    pub(super) fn run(&self, way: Way) -> Result<(), BenchError> {
        match &self.d_o {
            Some(d_o) => self.place.finish_with(self.both(way, d_o)?),
            None => self.place.finish_with(self.forward(way)?),
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
