//! Attention of queries to keys under score rules; shapes as in [`moebius_ops::attention`].

#[cfg(feature = "flex")]
pub(in crate::ops) mod flex;

use super::call::{Kernels, Request};
use super::tensors::DeviceValue;
use crate::Error;
use burn::tensor::Tensor;
use moebius_ops::attention::{HostRule, Problem};
use moebius_ops::{Attention, AttentionPass};
use moebius_shaders::attention::{self, LaunchRule, Plan};
use moebius_shaders::{Lookup, Unsupported};
use std::sync::Arc;

/// What the forward reads by strides: heads are usually a view of one projection's rows.
const STRIDED: &[&str] = &["q", "k", "v"];

/// A rule of the program's own, whatever its type.
pub(crate) trait AnyRule: HostRule {
    fn kernels(self: Arc<Self>, plan: Plan) -> Kernels;
}

impl<R: LaunchRule> AnyRule for R {
    fn kernels(self: Arc<Self>, plan: Plan) -> Kernels {
        let rule = self.clone();
        let kernels = Kernels::new(move |client, b| {
            attention::launch_ruled(client, &plan, b.fill(), &*rule);
        })
        .strided(STRIDED);
        kernels.with_backward(move |client, b| {
            attention::launch_backward_ruled(client, &plan, b.fill(), &*self);
        })
    }
}

/// o \[B, Hq, Sq, Dv\] and lse f32 \[B, Hq, Sq\] of q \[B, Hq, Sq, D\], k \[B, Hkv, Skv, D\] and v \[B, Hkv, Skv, Dv\].
/// `tables` are those that the rules and sinks of `problem` read, in the order of the description; the caller has checked
/// all shapes.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't run it, or its rule.
pub(crate) fn run(
    [q, k, v]: [Tensor<4>; 3],
    tables: Vec<DeviceValue>,
    problem: Problem,
    rule: Option<Arc<dyn AnyRule>>,
) -> Result<(Tensor<4>, Tensor<3>), Error> {
    if rule.is_some() && crate::device::is_xla(&q.device()) {
        let needs = "a CubeCL runtime or flex for a rule of the program's own";
        return Err(Unsupported::new("attention", needs, "XLA").into());
    }
    let operation = Attention {
        problem,
        pass: AttentionPass::Forward,
    };
    let on_host = rule.clone().map(|rule| rule as Arc<dyn HostRule>);
    let plan = |device: &_| {
        if let Some(rule) = rule {
            return Ok(rule.kernels(attention::plan_ruled(problem, device)?));
        }
        let plan = attention::plan(problem, None, device)?;
        let kernels = Kernels::of(plan, attention::launch).strided(STRIDED);
        Ok::<_, Unsupported>(kernels.with_backward(move |client, b| {
            attention::launch_backward(client, &plan, b.fill());
        }))
    };
    let call = Request::plan(operation, &q.device(), plan)?;
    let call = call.ruled(on_host);
    let mut results = call.reads([q, k, v]).reads(tables).run();
    Ok((results.floats(), results.floats()))
}
