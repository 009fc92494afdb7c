//! Attention of queries to keys under score rules; the shapes are those of [`moebius_ops::attention`].

#[cfg(feature = "flex")]
pub(in crate::ops) mod flex;

use super::call::Request;
use super::tensors::DeviceValue;
use crate::Error;
use burn::tensor::{Device, Tensor};
use moebius_ops::attention::Problem;
use moebius_ops::{Attention, AttentionPass};
use moebius_shaders::{AnyRule, Family, Unsupported};
use std::sync::Arc;

/// An axis of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    Queries,
    Keys,
}

/// Returns the axis to cut on a device that ends long loops, where the attention or, if the device records them, its gradients can't be
/// computed in one call; `None` everywhere else.
pub(crate) fn too_long(problem: &Problem, device: &Device) -> Option<Axis> {
    let capability = crate::device::capability(device).ok().flatten()?;
    capability.loop_rounds?;
    let operation = Attention {
        problem: *problem,
        pass: AttentionPass::Forward,
    };
    if operation.kernels(&None, &capability).is_err() {
        return Some(Axis::Keys);
    }
    if !device.is_autodiff() || operation.gradients(&None, &capability).is_ok() {
        return None;
    }
    let s = problem.sizes();
    Some(if s.keys >= s.queries * problem.group() {
        Axis::Keys
    } else {
        Axis::Queries
    })
}

/// Computes o \[B, Hq, Sq, Dv\] and lse \[B, Hq, Sq\] (f32) from q \[B, Hq, Sq, D\], k \[B, Hkv, Skv, D\] and v \[B, Hkv, Skv, Dv\].
/// `tables` are those that the rules and sinks of `problem` read, in the order of the description; the caller has checked all shapes.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't run the attention, or its rule.
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
    let call = Request::new(operation, &q.device(), &rule)?.ruled(rule);
    let mut results = call.reads([q, k, v]).reads(tables).run();
    Ok((results.floats(), results.floats()))
}
