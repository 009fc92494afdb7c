//! The kernels of [`moebius_ops::Routing`].

use super::{Family, Kernels};
use crate::Lookup;
use crate::prelude::*;
use crate::routing::{
    launch, launch_hash, launch_load, launch_logits, launch_logits_backward, launch_topk_backward,
    plan, plan_hash, plan_load, plan_logits, plan_logits_backward, plan_topk_backward,
};
use moebius_ops::Routing;

impl Family for Routing {
    type How = ();

    fn kernels(&self, (): &(), device: &Capability) -> Result<Kernels, PlanError> {
        Ok(match *self {
            Self::Logits {
                problem,
                hidden,
                element,
                backward: false,
            } => {
                let plan = plan_logits(problem, hidden, element, device)?;
                Kernels::new(plan, |client, plan, b| {
                    launch_logits(client, plan, b.get("x"), b.get("Wg"), b.get("logits"));
                })
            }
            Self::Logits {
                problem,
                hidden,
                element,
                ..
            } => {
                let plan = plan_logits_backward(problem, hidden, element, device)?;
                Kernels::of(plan, launch_logits_backward)
            }
            Self::Route { problem, .. } => Kernels::of(plan(problem, device)?, launch),
            Self::RouteBackward { problem, of, .. } => {
                let plan = plan_topk_backward(problem, of, device)?;
                Kernels::of(plan, launch_topk_backward)
            }
            Self::Hash { problem, seed, .. } => {
                let plan = plan_hash(problem, device)?;
                Kernels::new(plan, move |client, plan, b| {
                    launch_hash(client, plan, seed, b.fill());
                })
            }
            Self::Load(problem) => Kernels::new(plan_load(problem, device)?, |client, plan, b| {
                launch_load(client, plan, b.get("indices"), b.get("counts"));
            }),
        })
    }
}
