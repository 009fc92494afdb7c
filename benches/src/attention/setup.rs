//! The operands q, k and v on the measured device, and the implementations that take them.

use super::AttentionBench;
use crate::BenchError;
use crate::place::Place;
use burn::tensor::module::{attention, attention_fallback};
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Distribution, Tensor};
use moebius::Error;
use moebius::attention::Attend;
use moebius_shaders::attention::plan;

/// q \[B, Hq, Sq, D\] and k and v \[B, Hkv, Skv, D\], or their gradients.
pub(super) type Operands = [Tensor<4>; 3];

/// Operands of the benchmark on its device.
pub(super) struct Setup {
    bench: AttentionBench,
    pub(super) place: Place,
    /// Name of the forward pass's kernel variant.
    pub(super) variant: String,
    /// q, k and v; on an autodiff device if gradients are measured.
    pub(super) operands: Operands,
    /// Gradient \[B, Hq, Sq, D\] of the output; `None` without a backward pass.
    pub(super) d_o: Option<Tensor<4>>,
}

impl Setup {
    pub(super) fn new(bench: &AttentionBench) -> Result<Self, BenchError> {
        let problem = bench.problem()?;
        let place = Place::open(&bench.device)?;
        let variant = place.variant(|device| Ok(plan(problem, None, device)?.variant.name()))?;
        let mut on = place.device.clone();
        if bench.backward {
            on = on.autodiff();
        }
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

    /// The timed work: one forward pass, also the gradients of Σ o ∘ do if measured, and a wait for the device.
    pub(super) fn run(&self, way: Way) -> Result<(), BenchError> {
        match &self.d_o {
            Some(d_o) => self.place.finish_with(self.both(way, d_o)?),
            None => self.place.finish_with(self.forward(way)?),
        }
    }

    pub(super) fn forward(&self, way: Way) -> Result<Output, Error> {
        way.forward(&self.bench, self.operands.clone())
    }

    /// Runs one forward pass and computes the gradients of q, k and v.
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

/// An implementation of attention on tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Our attention.
    Ours,
    /// Our attention, causal and without a window.
    Full,
    /// Burn's `attention`.
    Burn,
    /// The product, softmax and product that Burn falls back to where a backend has no attention of its own.
    Composition,
}

/// The output o \[B, Hq, Sq, D\], and the log-sum-exp \[B, Hq, Sq\] if the implementation returns it.
pub(super) struct Output {
    pub(super) o: Tensor<4>,
    pub(super) lse: Option<Tensor<3>>,
}

impl Way {
    /// Name of the implementation in a report.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Full => "ours, causal without a window",
            Self::Burn => "Burn's attention",
            Self::Composition => "Burn's product, softmax and product",
        }
    }

    /// The benchmark that this implementation computes when `bench` is asked for: for `Full`, `bench` made causal
    /// without a window.
    pub(super) fn of(self, bench: &AttentionBench) -> AttentionBench {
        let mut bench = bench.clone();
        if self == Self::Full {
            (bench.causal, bench.window) = (true, None);
        }
        bench
    }

    pub(super) fn forward(
        self,
        bench: &AttentionBench,
        [q, k, v]: [Tensor<4>; 3],
    ) -> Result<Output, Error> {
        let options = AttentionModuleOptions {
            is_causal: bench.causal,
            ..Default::default()
        };
        let o = match self {
            Self::Ours | Self::Full => {
                let bench = self.of(bench);
                let attend = match (bench.window, bench.causal) {
                    (Some(keys), _) => Attend::new().window(keys),
                    (None, true) => Attend::new().causal(),
                    (None, false) => Attend::new(),
                };
                let out = attend.forward(q, k, v)?;
                let lse = Some(out.lse);
                return Ok(Output { o: out.o, lse });
            }
            Self::Burn => attention(q, k, v, None, None, options),
            Self::Composition => attention_fallback(q, k, v, None, None, options),
        };
        Ok(Output { o, lse: None })
    }
}
