//! The kernels of [`moebius_ops::Quantize`].

use super::{Buffers, Family, Kernels};
use crate::Lookup;
use crate::fp8;
use crate::prelude::*;
use crate::quantize::{Plan, launch, launch_amax, launch_by, launch_dequantize, plan, plan_amax};
use cubecl::prelude::*;
use moebius_ops::Quantize;
use moebius_ops::quantize::AmaxProblem;

impl Family for Quantize {
    type How = ();

    fn kernels(&self, (): &(), device: &Capability) -> Result<Kernels, PlanError> {
        Ok(match self {
            Self::Encode { problem, overflow } => {
                let (plan, overflow) = (fp8::plan(*problem, device)?, *overflow);
                Kernels::new(plan, move |client, plan, b| {
                    fp8::launch_encode(client, plan, overflow, b.get("x"), b.get("codes"));
                })
            }
            Self::Decode(problem) => {
                Kernels::new(fp8::plan(*problem, device)?, |client, plan, b| {
                    fp8::launch_decode(client, plan, b.get("codes"), b.get("y"));
                })
            }
            Self::Quantize(p) => Kernels::of(plan(*p, device)?, launch),
            Self::QuantizeBy(p) => Kernels::of(plan(*p, device)?, launch_by),
            Self::Dequantize(p) => Kernels::of(plan(*p, device)?, launch_dequantize),
            Self::FakeQuantize(p) | Self::FakeQuantizeBy(p) => {
                Kernels::new(plan(*p, device)?, launch_fake)
            }
            Self::Amax { shape, element } => {
                let problem = AmaxProblem::new(shape.iter().product(), *element)?;
                Kernels::new(plan_amax(problem, device)?, |client, plan, b| {
                    launch_amax(client, plan, b.get("x"), b.get("amax"));
                })
            }
        })
    }
}

/// Enqueues codes and their values. A kernel of both halves would save the words, 2 bytes of 10 for each f32, and read as much
/// of x.
fn launch_fake(client: &Client, plan: &Plan, b: Buffers<'_>) {
    let given = b.find("scales");
    let launch = match given {
        Some(_) => launch_by,
        None => launch,
    };
    let coded = crate::quantize::Buffers {
        values: b.get("x"),
        words: empty_words(client, plan.problem.words()),
        scales: given.unwrap_or_else(|| empty_words(client, plan.problem.scales())),
    };
    launch(client, plan, coded.clone());
    let values = b.get("y");
    launch_dequantize(client, plan, crate::quantize::Buffers { values, ..coded });
}
