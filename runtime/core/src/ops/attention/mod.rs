//! Attention of queries to keys under score rules; shapes as in [`moebius_ops::attention`].

#[cfg(feature = "flex")]
pub(in crate::ops) mod flex;

use super::call::{Kernels, Request};
use super::tensors::DeviceValue;
use crate::Error;
use burn::tensor::Tensor;
use moebius_ops::attention::Problem;
use moebius_ops::{Attention, AttentionPass};
use moebius_shaders::{Lookup, Unsupported, attention};

/// o \[B, Hq, Sq, Dv\] and lse f32 \[B, Hq, Sq\] of q \[B, Hq, Sq, D\], k \[B, Hkv, Skv, D\] and v \[B, Hkv, Skv, Dv\].
/// `tables` are those that the rules and sinks of `problem` read, in the order of the description; the caller has checked
/// all shapes.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't run it.
pub(crate) fn run(
    [q, k, v]: [Tensor<4>; 3],
    tables: Vec<DeviceValue>,
    problem: Problem,
) -> Result<(Tensor<4>, Tensor<3>), Error> {
    let operation = Attention {
        problem,
        pass: AttentionPass::Forward,
    };
    let plan = |device: &_| {
        let plan = attention::plan(problem, None, device)?;
        let kernels = Kernels::of(plan, attention::launch);
        Ok::<_, Unsupported>(kernels.with_backward(move |client, b| {
            attention::launch_backward(client, &plan, b.fill());
        }))
    };
    let call = Request::plan(operation, &q.device(), plan)?;
    let mut results = call.reads([q, k, v]).reads(tables).run();
    Ok((results.floats(), results.floats()))
}
