//! Feed-forward experts, fused: two products per slot and the weighted sum of a token's slots;
//! shapes as in [`moebius_ops::experts`].

#[cfg(feature = "flex")]
pub(in crate::ops) mod flex;

use super::call::Request;
use super::{Assignment, Sorted};
use crate::{Error, device};
use burn::tensor::{Device, Tensor};
use moebius_ops::Experts;
use moebius_ops::experts::{Keep, Problem};
use moebius_shaders::grouped_gemm::{Choice, Variant};
use moebius_shaders::{Stage, experts};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Weights of feed-forward experts, shapes as in [`experts::Buffers`].
#[derive(Clone, Debug)]
pub(crate) struct FeedForward {
    pub(crate) w_in: Tensor<3>,
    pub(crate) b_in: Option<Tensor<2>>,
    pub(crate) w_out: Tensor<3>,
    pub(crate) b_out: Option<Tensor<2>>,
}

/// How a forward runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    /// What it keeps for the backward pass.
    pub(crate) keep: Keep,
    /// Where to note the time after every stage; the device is waited for.
    pub(crate) clock: Option<StageClock>,
}

impl FeedForward {
    /// The call with these after its other operands.
    fn read_by(self, call: Request) -> Request {
        let call = call.reads([self.w_in, self.w_out]);
        call.reads(self.b_in).reads(self.b_out)
    }
}

/// A call of `problem` by kernels of `variant`, without its operands.
fn request(
    problem: Problem,
    device: &Device,
    variant: Option<Variant>,
    run: Run,
) -> Result<Request, Error> {
    problem.check()?;
    let forward = |keep| Experts::Forward { problem, keep };
    let call = Request::new(forward(false), device, &variant)?.timed(run.clock);
    match run.keep {
        Keep::Inputs => Ok(call),
        Keep::FirstProduct => call.recorded_as(forward(true), device, &variant),
    }
}

/// y \[T,H\] of x \[T,H\], whose rows all go through the one expert of `problem`, a dense network.
pub(crate) fn dense(
    x: Tensor<2>,
    experts: FeedForward,
    problem: Problem,
    variant: Option<Variant>,
    run: Run,
) -> Result<Tensor<2>, Error> {
    let call = request(problem, &x.device(), variant, run)?.reads([x]);
    Ok(experts.read_by(call).run().floats())
}

/// How `problem` runs as kernels of `variant`, as a forward chooses it before it sorts; `None` without kernels.
pub(crate) fn plan(
    problem: Problem,
    variant: Option<Variant>,
    device: &Device,
) -> Result<Option<experts::Plan>, Error> {
    problem.check()?;
    device::plan(device, |device| {
        let (rows, experts) = (problem.row_bound, problem.routing.experts());
        let choice = Choice {
            variant: Some(Variant::or_portable(variant, rows, experts, device)),
            ..Choice::default()
        };
        experts::plan(problem, device, choice)
    })
}

impl Assignment {
    /// y \[T,H\] of x \[T,H\] and router weights \[T,K\]; `shape` is of any routing.
    pub(crate) fn feed_forward(
        &self,
        [x, weights]: [Tensor<2>; 2],
        experts: FeedForward,
        shape: Problem,
        run: Run,
    ) -> Result<Tensor<2>, Error> {
        let problem = Problem {
            routing: self.routing,
            row_bound: self.row_bound,
            ..shape
        };
        let call = request(problem, &x.device(), self.variant, run)?;
        let Sorted {
            order,
            offsets,
            positions,
            ..
        } = &self.sorted;
        let call = call.reads([x, weights]).reads([order, offsets, positions]);
        let call = experts.read_by(call).beside(self.sorted.tiles());
        Ok(call.run().floats())
    }
}

/// When the stages of one call ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct StageClock(Arc<Mutex<Vec<(Stage, Instant)>>>);

impl StageClock {
    /// Notes that `stage` has ended.
    pub(crate) fn mark(&self, stage: Stage) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((stage, Instant::now()));
    }

    pub(crate) fn marks(&self) -> Vec<(Stage, Instant)> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
