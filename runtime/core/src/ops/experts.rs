//! Fused feed-forward experts: two products per slot and the weighted sum of a token's slots; the shapes are those of
//! [`moebius_ops::experts`].

use super::call::Request;
use super::{Rows, Sorted};
use crate::{Error, device};
use burn::tensor::{Device, Tensor};
use moebius_ops::Experts;
use moebius_ops::experts::{Keep, Problem};
use moebius_shaders::grouped_gemm::{Choice, Variant};
use moebius_shaders::{Stage, experts};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The weights of feed-forward experts, in the shapes of [`experts::Buffers`].
#[derive(Clone, Debug)]
pub(crate) struct FeedForward {
    pub(crate) w_in: Tensor<3>,
    pub(crate) b_in: Option<Tensor<2>>,
    pub(crate) w_out: Tensor<3>,
    pub(crate) b_out: Option<Tensor<2>>,
}

/// The options of a forward.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    /// The tensors that the forward keeps for the backward pass.
    pub(crate) keep: Keep,
    /// A clock that records the time after every stage; each stage then waits for the device.
    pub(crate) clock: Option<StageClock>,
}

/// Computes y \[T,H\] from x \[T,H\]: sums of sorted rows weighted by router weights \[T,K\], or, in a dense network, the output of its one
/// expert for all rows, without weights. If the rows are sorted, the sort replaces the routing and row bound of `problem`.
pub(crate) fn run(
    x: Tensor<2>,
    weights: Option<Tensor<2>>,
    experts: FeedForward,
    of: Rows<'_>,
    problem: Problem,
    run: Run,
) -> Result<Tensor<2>, Error> {
    let problem = match of {
        Rows::Sorted(assignment) => Problem {
            routing: assignment.routing,
            row_bound: assignment.row_bound,
            ..problem
        },
        Rows::All(_) => problem,
    };
    problem.check()?;
    let (device, variant) = (x.device(), of.variant());
    let forward = |keep| Experts::Forward { problem, keep };
    let call = Request::new(forward(false), &device, &variant)?.timed(run.clock);
    // Several devices have the first product of their own experts only, and compute it again.
    let divided = of.sorted().is_some() && device::places_of_experts(&device).is_some();
    let call = match run.keep {
        Keep::FirstProduct if !divided => call.recorded_as(forward(true), &device, &variant)?,
        Keep::FirstProduct | Keep::Inputs => call,
    };
    let sort = of
        .sorted()
        .map(|sorted| [&sorted.order, &sorted.offsets, &sorted.positions]);
    let call = call.reads([x]).reads(weights);
    let call = call.reads(sort.into_iter().flatten());
    let call = call.reads([experts.w_in, experts.w_out]);
    let call = call.reads(experts.b_in).reads(experts.b_out);
    Ok(call
        .beside(of.sorted().and_then(Sorted::tiles))
        .run()
        .floats())
}

/// Returns `variant` if there is one, else matrix instructions if they are the fastest proven way to both products of `problem`; `None`
/// leaves the choice to the sort.
pub(crate) fn variant(
    variant: Option<Variant>,
    problem: &Problem,
    device: &Device,
) -> Result<Option<Variant>, Error> {
    if variant.is_some() {
        return Ok(variant);
    }
    let best = device::plan(device, |device| -> Result<_, Error> {
        let products = [problem.up()?, problem.down()?];
        let [up, down] = products.map(|product| Variant::best(&product, device));
        Ok((up == down && up.of_matrices()).then_some(up))
    })?;
    Ok(best.flatten())
}

/// Plans how kernels of `variant` run `problem`, as a forward does before it sorts; `None` on a device without kernels.
pub(crate) fn plan(
    problem: Problem,
    variant: Option<Variant>,
    device: &Device,
) -> Result<Option<experts::Plan>, Error> {
    problem.check()?;
    let variant = self::variant(variant, &problem, device)?;
    device::plan(device, |device| {
        let (rows, experts) = (problem.row_bound, problem.routing.experts());
        let choice = Choice {
            variant: Some(Variant::or_portable(variant, rows, experts, device)),
            ..Choice::default()
        };
        experts::plan(problem, device, choice)
    })
}

/// The times at which the stages of one call ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct StageClock(Arc<Mutex<Vec<(Stage, Instant)>>>);

impl StageClock {
    /// Records the end of `stage`.
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

#[cfg(feature = "flex")]
pub(super) mod flex {
    //! Feed-forward experts on Flex.

    use super::StageClock;
    use crate::ops::host::{
        Computed, Floats, Operands, Rows, contiguous, floats, matrices, segments,
    };
    use moebius_host::experts::{self as host, Stage, Weights};
    use moebius_host::permute::Segments;
    use moebius_ops::Experts as Operation;
    use moebius_ops::experts::Problem;

    /// The operands that both passes read.
    struct Inputs {
        segments: Segments,
        x: Rows,
        weights: Vec<f32>,
        w_in: Rows,
        w_out: Rows,
        biases: [Floats; 2],
    }

    impl Inputs {
        /// Takes the operands; without a sort, all rows belong to the one expert of a dense network, with a weight of 1.
        fn of(b: &mut Operands, problem: &Problem) -> Self {
            let weights = b.maybe_float("weights");
            Self {
                segments: segments(b, problem.row_bound),
                x: contiguous(b.float("x")),
                weights: weights.map_or_else(|| vec![1.0; problem.row_bound], floats),
                w_in: contiguous(b.float("w_in")),
                w_out: contiguous(b.float("w_out")),
                biases: ["b_in", "b_out"].map(|name| Floats::of(b, name)),
            }
        }

        fn operands(&self) -> host::Operands<'_> {
            host::Operands {
                segments: &self.segments,
                x: matrices(&self.x),
                weights: &self.weights,
                experts: Weights {
                    w_in: matrices(&self.w_in),
                    w_out: matrices(&self.w_out),
                    biases: self.biases.each_ref().map(Floats::maybe),
                },
            }
        }
    }

    pub(in crate::ops) fn run(
        operation: &Operation,
        clock: Option<&StageClock>,
        b: Operands,
    ) -> Vec<Computed> {
        let results = match operation {
            Operation::Forward { problem, keep } => forward(problem, *keep, clock, b),
            Operation::Backward {
                problem,
                x,
                weights,
                ..
            } => gradients(problem, [*x, *weights], b),
        };
        results.into_iter().map(Computed::from).collect()
    }

    /// Computes y, and the first product before its activation if the operation keeps it.
    fn forward(
        problem: &Problem,
        keep: bool,
        clock: Option<&StageClock>,
        mut b: Operands,
    ) -> Vec<Vec<f32>> {
        let inputs = Inputs::of(&mut b, problem);
        let ended = clock.map(|clock| move |stage| clock.mark(named(stage)));
        let ended = ended.as_ref().map(|ended| ended as &dyn Fn(Stage));
        let (y, pre) = host::forward(problem, &inputs.operands(), keep, ended);
        [y].into_iter().chain(pre).collect()
    }

    fn named(stage: Stage) -> moebius_shaders::Stage {
        match stage {
            Stage::FirstProduct => moebius_shaders::Stage::Gemm1,
            Stage::SecondProduct => moebius_shaders::Stage::Gemm2,
            Stage::Combine => moebius_shaders::Stage::Combine,
        }
    }

    /// Computes the gradients of x if it is needed, of the router weights if there are any, and of weights and biases if they are needed.
    fn gradients(problem: &Problem, needs: [bool; 2], mut b: Operands) -> Vec<Vec<f32>> {
        let [dy, pre] = ["dy", "pre"].map(|name| Floats::of(&mut b, name));
        let inputs = Inputs::of(&mut b, problem);
        let found = host::backward(
            problem,
            &inputs.operands(),
            (dy.values(), pre.maybe()),
            needs,
        );
        let mut all: Vec<Vec<f32>> = found.x.into_iter().collect();
        if !problem.dense {
            all.push(found.weights);
        }
        if let Some(of) = found.experts {
            all.extend([of.w_in, of.w_out]);
            if problem.bias {
                all.extend([of.b_in, of.b_out]);
            }
        }
        all
    }
}
