//! The kernels of [`moebius_ops::Attention`].

use super::{Family, Kernels};
use crate::Lookup;
use crate::attention::{
    LaunchRule, Plan, launch, launch_backward, launch_backward_ruled, launch_ruled, plan,
    plan_ruled,
};
use crate::prelude::*;
use moebius_ops::attention::HostRule;
use moebius_ops::{Attention, AttentionPass};
use std::sync::Arc;

/// What the forward reads by strides: heads are usually a view of one projection's rows.
const STRIDED: &[&str] = &["q", "k", "v"];

impl Family for Attention {
    /// A program's own rule, after those of the problem.
    type How = Option<Arc<dyn AnyRule>>;

    fn kernels(&self, rule: &Self::How, device: &Capability) -> Result<Kernels, PlanError> {
        let forward = self.pass == AttentionPass::Forward;
        let kernels = match rule {
            Some(rule) => {
                let plan = plan_ruled(self.problem, device)?;
                rule.clone().kernels(plan, forward)
            }
            None => {
                let plan = plan(self.problem, None, device)?;
                if forward {
                    Kernels::of(plan, launch)
                } else {
                    Kernels::of(plan, launch_backward)
                }
            }
        };
        Ok(if forward {
            kernels.reading_views(STRIDED)
        } else {
            kernels
        })
    }
}

/// A rule of a program's own, whatever its type.
pub trait AnyRule: HostRule {
    /// The kernels of a plan with this rule: forward, or of the gradients.
    fn kernels(self: Arc<Self>, plan: Plan, forward: bool) -> Kernels;
}

impl<R: LaunchRule> AnyRule for R {
    fn kernels(self: Arc<Self>, plan: Plan, forward: bool) -> Kernels {
        if forward {
            Kernels::new(plan, move |client, plan, b| {
                launch_ruled(client, plan, b.fill(), &*self);
            })
        } else {
            Kernels::new(plan, move |client, plan, b| {
                launch_backward_ruled(client, plan, b.fill(), &*self);
            })
        }
    }
}
