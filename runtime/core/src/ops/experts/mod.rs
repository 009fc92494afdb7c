//! Feed-forward experts, fused: two products per slot and the weighted sum of a token's slots;
//! shapes as in [`moebius_shaders::moe`].

#[cfg(feature = "autodiff")]
mod autodiff;
#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "flex")]
pub(in crate::ops) mod flex;
#[cfg(feature = "fusion")]
mod lazy;
#[cfg(feature = "xla")]
mod xla;

use super::{Assignment, Maybe, Sorted};
use crate::{Error, device};
use burn::backend::Dispatch;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, backend_extension};
use burn::tensor::{Device, Tensor};
#[cfg(any(feature = "fusion", feature = "xla"))]
use moebius_ops::Product;
use moebius_shaders::PlanError;
use moebius_shaders::grouped_gemm::{Choice, Variant};
use moebius_shaders::moe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Weights of feed-forward experts, shapes as in [`moe::Buffers`].
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
    pub(crate) keep: moebius_ops::moe::Keep,
    /// Where to note the time after every stage; the device is waited for.
    pub(crate) clock: Option<StageClock>,
}

/// How `problem` runs as kernels of `variant`, as a forward chooses it before it sorts; `None` without kernels.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for sizes that don't fit,
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't run it.
pub(crate) fn plan(
    problem: moebius_ops::moe::Problem,
    variant: Option<Variant>,
    device: &Device,
) -> Result<Option<moe::Plan>, Error> {
    problem.check()?;
    device::plan(device, |device| {
        let (rows, experts) = (problem.row_bound, problem.routing.experts());
        let portable = || Variant::portable(rows, experts, device);
        let choice = Choice {
            variant: Some(variant.unwrap_or_else(portable)),
            ..Choice::default()
        };
        moe::plan(problem, device, choice)
    })
}

impl Assignment {
    /// y \[T,H\] of x \[T,H\] and router weights \[T,K\]; `shape` is of any routing.
    pub(crate) fn feed_forward(
        &self,
        [x, weights]: [Tensor<2>; 2],
        experts: FeedForward,
        shape: moebius_ops::moe::Problem,
        run: Run,
    ) -> Result<Tensor<2>, Error> {
        let problem = moebius_ops::moe::Problem {
            routing: self.routing,
            row_bound: self.row_bound,
            ..shape
        };
        problem.check()?;
        let records = x.device().is_autodiff();
        let plans = device::plan(&x.device(), |device| -> Result<_, PlanError> {
            let (rows, experts) = (problem.row_bound, problem.routing.experts());
            let portable = || Variant::portable(rows, experts, device);
            let variant = self.variant.unwrap_or_else(portable);
            let choice = Choice {
                variant: Some(variant),
                allow_unproven: true,
            };
            let training = || moe::plan_training(problem, variant, device);
            let training = records.then(training).transpose()?;
            Ok((moe::plan(problem, device, choice)?, training))
        });
        let (plan, training) = plans?.unzip();
        let call = ExpertsCall {
            problem,
            plan,
            training: training.flatten(),
            run,
        };
        let bias = |bias: Option<Tensor<2>>| bias.map(Tensor::into_dispatch).into();
        let experts = ExpertWeights {
            w_in: experts.w_in.into_dispatch(),
            w_out: experts.w_out.into_dispatch(),
            b_in: bias(experts.b_in),
            b_out: bias(experts.b_out),
        };
        let (x, weights) = (x.into_dispatch(), weights.into_dispatch());
        let y = Dispatch::moe_experts(x, weights, self.sorted.clone(), experts, call);
        Ok(Tensor::from_dispatch(y))
    }
}

/// The experts of a layer.
#[derive(Clone, Debug)]
pub(crate) struct ExpertsCall {
    pub(crate) problem: moebius_ops::moe::Problem,
    pub(crate) plan: Option<moe::Plan>,
    /// How the backward pass runs; present on a recording CubeCL device.
    pub(crate) training: Option<moe::TrainingPlan>,
    pub(crate) run: Run,
}

#[cfg(any(feature = "fusion", feature = "xla"))]
impl ExpertsCall {
    /// The forward pass, and whether it returns its first product.
    fn forward(&self, keep: bool) -> Product {
        let problem = self.problem;
        Product::Experts { problem, keep }
    }

    /// The backward pass, and whether the forward kept its first product.
    fn backward(&self, pre: bool, needs: Needs) -> Product {
        Product::ExpertsBackward {
            problem: self.problem,
            pre,
            x: needs.x,
            weights: needs.experts,
        }
    }
}

/// When the stages of one call ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct StageClock(Arc<Mutex<Vec<(moe::Stage, Instant)>>>);

impl StageClock {
    /// Notes that `stage` has ended.
    pub(crate) fn mark(&self, stage: moe::Stage) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((stage, Instant::now()));
    }

    /// The stages and when they ended.
    pub(crate) fn marks(&self) -> Vec<(moe::Stage, Instant)> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Weights of the experts, shapes as in [`moe::Buffers`].
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct ExpertWeights<B: Backend> {
    pub(crate) w_in: FloatTensor<B>,
    pub(crate) w_out: FloatTensor<B>,
    #[extension_type]
    pub(crate) b_in: Maybe<B>,
    #[extension_type]
    pub(crate) b_out: Maybe<B>,
}

/// Result of a forward whose backward pass will run.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct Trained<B: Backend> {
    pub(crate) y: FloatTensor<B>,
    /// \[R, F or 2F\]: the first product before its activation.
    pub(crate) pre: FloatTensor<B>,
}

/// Which gradients a backward pass must compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) x: bool,
    pub(crate) experts: bool,
}

/// Gradients of a forward; absent where they aren't wanted.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct ExpertGradients<B: Backend> {
    #[extension_type]
    pub(crate) x: Maybe<B>,
    pub(crate) weights: FloatTensor<B>,
    #[extension_type]
    pub(crate) w_in: Maybe<B>,
    #[extension_type]
    pub(crate) w_out: Maybe<B>,
    #[extension_type]
    pub(crate) b_in: Maybe<B>,
    #[extension_type]
    pub(crate) b_out: Maybe<B>,
}

#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
    Autodiff: cfg(feature = "autodiff"),
)]
pub(crate) trait ExpertsOps: Backend {
    #[fusion(meta = lazy::output)]
    fn moe_experts(
        x: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        #[extension_type] sorted: Sorted<Self>,
        #[extension_type] experts: ExpertWeights<Self>,
        call: ExpertsCall,
    ) -> FloatTensor<Self>;
}

/// What only training runs.
#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
)]
pub(crate) trait ExpertsGradients: Backend {
    /// The forward, and the first product before its activation.
    #[fusion(meta = lazy::trained)]
    fn moe_experts_keeping(
        x: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        #[extension_type] sorted: Sorted<Self>,
        #[extension_type] experts: ExpertWeights<Self>,
        call: ExpertsCall,
    ) -> Trained<Self>;

    /// `pre` is what the forward kept; it is computed again when absent.
    #[fusion(meta = lazy::gradients)]
    fn moe_experts_backward(
        dy: FloatTensor<Self>,
        #[extension_type] forward: Forward<Self>,
        needs: Needs,
        call: ExpertsCall,
    ) -> ExpertGradients<Self>;
}

/// What a backward pass knows of its forward.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct Forward<B: Backend> {
    pub(crate) x: FloatTensor<B>,
    pub(crate) weights: FloatTensor<B>,
    #[extension_type]
    pub(crate) sorted: Sorted<B>,
    #[extension_type]
    pub(crate) experts: ExpertWeights<B>,
    #[extension_type]
    pub(crate) pre: Maybe<B>,
}
