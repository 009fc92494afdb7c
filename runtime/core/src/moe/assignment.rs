//! Slots assigned to experts, and the differentiable operations on their rows.
//!
//! Every kind of expert is made of these: rows in (`gather`), a product per expert (`linear`),
//! what looks along a sequence (`neighbours`, `attention`), and rows out (`combine`). Rows are
//! \[R, width\] in the order of their experts; those past the last expert's are undefined and
//! never reach a token.

use super::check::element;
use super::route::mask_words;
use crate::fp8::Fp8Matrices;
use crate::ops::{
    ExpertWeights, ExpertsCall, ExpertsOps, Fp8LinearCall, Fp8LinearOps, Grouping, Limits, Maybe,
    NeighboursCall, RowsCall, RowsOps, SortCall, SortOps, Sorted, StageClock,
};
use crate::{Error, device, ops};
use burn::backend::Dispatch;
use burn::tensor::{Bool, DType, Int, Tensor};
use moebius_device::Capability;
use moebius_shaders::grouped_gemm::{self, Choice, Variant};
use moebius_shaders::moe::{self, sorting};
use moebius_shaders::permute::{self, Capacity, RowsProblem, neighbours};
use moebius_shaders::segment_attention::Segments;
use moebius_shaders::{ShapeError, routing};
use std::sync::Arc;

/// Who decides how many slots an expert takes.
#[derive(Clone, Debug, Default)]
pub(super) struct CapacityRule {
    /// `None` never drops.
    pub(super) capacity: Option<Capacity>,
    /// \[E\] f32: factors on the device instead of the capacity's own.
    pub(super) factors: Option<Tensor<1>>,
    /// Experts that take any.
    pub(super) mask: Option<Tensor<1, Bool>>,
}

/// Slots sorted by expert.
#[derive(Clone, Debug)]
pub(super) struct Assignment {
    sorted: Sorted<Dispatch>,
    routing: routing::Problem,
    row_bound: usize,
    /// What all products share, because it decides the tiles; absent without kernels.
    variant: Option<Variant>,
    capability: Option<Arc<Capability>>,
}

impl Assignment {
    /// Sorts the slots of `indices` \[T,K\] with router weights \[T,K\].
    pub(super) fn new(
        indices: Tensor<2, Int>,
        weights: Tensor<2>,
        experts: usize,
        rule: CapacityRule,
        variant: Option<Variant>,
    ) -> Result<Self, Error> {
        let [tokens, top_k] = indices.dims();
        let routing = routing::Problem::new(tokens, experts, top_k)?;
        let problem = sorting::Problem::new(&routing, rule.capacity, rule.factors.is_some())?;
        let capability = device::capability(&weights.device())?;
        let planned = capability.as_ref().map(|device| -> Result<_, Error> {
            let portable = || Variant::portable(problem.row_bound(), experts, device);
            let variant = variant.unwrap_or_else(portable);
            Ok((
                variant,
                sorting::plan(problem, variant.tile_rows(), device)?,
            ))
        });
        let (variant, plan) = planned.transpose()?.unzip();
        let limits = Limits {
            mask: mask_words(rule.mask),
            factors: rule
                .factors
                .map(Tensor::into_dispatch)
                .map_or(Maybe::Absent, Maybe::Present),
        };
        let sorted = Dispatch::moe_sort(
            weights.into_dispatch(),
            indices.cast(DType::I32).into_dispatch(),
            limits,
            SortCall { problem, plan },
        );
        Ok(Self {
            sorted,
            routing,
            row_bound: problem.row_bound(),
            variant,
            capability,
        })
    }

    /// All rows of `x` assigned to one expert, for the feed-forward network that all tokens share.
    pub(super) fn single(x: &Tensor<2>) -> Result<Self, Error> {
        let (rows, device) = (x.dims()[0], x.device());
        let indices = Tensor::zeros([rows, 1], &device);
        let weights = Tensor::ones([rows, 1], (&device, DType::F32));
        Self::new(indices, weights, 1, CapacityRule::default(), None)
    }

    /// Tokens, experts and slots.
    pub(super) fn routing(&self) -> routing::Problem {
        self.routing
    }

    /// \[1\]: slots that reach no expert.
    pub(super) fn dropped(&self) -> Tensor<1, Int> {
        Tensor::from_dispatch(self.sorted.dropped.clone())
    }

    /// \[T,K\]: the sorted row of every slot, −1 for a slot that reaches no expert.
    pub(super) fn positions(&self) -> Tensor<2, Int> {
        let positions = Tensor::<1, Int>::from_dispatch(self.sorted.positions.clone());
        positions.reshape([self.routing.tokens(), self.routing.top_k()])
    }

    fn rows_call(&self, width: usize, dtype: DType) -> Result<RowsCall, Error> {
        let element = element(dtype)?;
        let problem = RowsProblem::new(&self.routing, self.row_bound, width, element)?;
        let plan = self.capability.as_ref();
        let plan = plan.map(|device| permute::plan_rows(problem, device));
        Ok(RowsCall {
            problem,
            plan: plan.transpose()?,
        })
    }

    /// \[R, width\]: the token of every sorted row of x \[T, width\].
    pub(super) fn gather(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        let call = self.rows_call(x.dims()[1], x.dtype())?;
        let rows = Dispatch::moe_gather(x.into_dispatch(), self.sorted.clone(), call);
        Ok(Tensor::from_dispatch(rows))
    }

    /// \[T, width\]: Σ_k w_tk · row of slot (t,k), in slot order; weights of 1 when `None`.
    pub(super) fn combine(
        &self,
        rows: Tensor<2>,
        weights: Option<Tensor<2>>,
    ) -> Result<Tensor<2>, Error> {
        let call = self.rows_call(rows.dims()[1], rows.dtype())?;
        let weights = weights
            .map(Tensor::into_dispatch)
            .map_or(Maybe::Absent, Maybe::Present);
        let y = Dispatch::moe_combine(rows.into_dispatch(), weights, self.sorted.clone(), call);
        Ok(Tensor::from_dispatch(y))
    }

    /// The same rows \[R, width\] with zeros past the last expert's, and so are their gradients.
    pub(super) fn defined(&self, rows: Tensor<2>) -> Tensor<2> {
        let ([count, _], experts) = (rows.dims(), self.routing.experts());
        let offsets = Tensor::<1, Int>::from_dispatch(self.sorted.offsets.clone());
        let used = offsets.narrow(0, experts, 1).expand([count]);
        let row = Tensor::<1, Int>::arange(0..count as i64, &rows.device()).cast(used.dtype());
        let undefined = row.greater_equal(used).reshape([count, 1]);
        let shape = rows.dims();
        rows.mask_fill(undefined.expand(shape), 0.0)
    }

    /// \[R,n\]: rows \[R,k\] · W_eᵀ + b_e, W \[E,n,k\], b \[E,n\].
    pub(super) fn linear(
        &self,
        rows: Tensor<2>,
        w: Tensor<3>,
        bias: Option<Tensor<2>>,
    ) -> Result<Tensor<2>, Error> {
        let [_, n, k] = w.dims();
        let problem = self.product([n, k], rows.dtype())?;
        ops::linear::run(rows, w, bias, self.grouping(), (problem, self.variant))
    }

    fn grouping(&self) -> Grouping<Dispatch> {
        Grouping::Sorted(self.sorted.clone())
    }

    /// A product of the sorted rows \[R,k\] and \[n,k\]ᵀ per expert.
    pub(super) fn product(
        &self,
        [n, k]: [usize; 2],
        dtype: DType,
    ) -> Result<grouped_gemm::Problem, ShapeError> {
        let r = &self.routing;
        let problem = grouped_gemm::Problem::new(r.slots(), r.experts(), r.top_k(), n, k)?;
        Ok(grouped_gemm::Problem {
            element: element(dtype)?,
            rows: grouped_gemm::Source::Sorted,
            row_bound: self.row_bound,
            ..problem
        })
    }

    /// \[R,n\]: `problem` of x \[T,k\] or \[R,k\] and FP8 weights.
    pub(super) fn fp8_linear(
        &self,
        x: Tensor<2>,
        weights: &Fp8Matrices,
        bias: Option<Tensor<2>>,
        problem: grouped_gemm::Problem,
    ) -> Result<Tensor<2>, Error> {
        let problem = grouped_gemm::Problem {
            fp8: Some(weights.weights()),
            ..problem
        };
        let plan = self.capability.as_ref().map(|device| {
            let choice = Choice {
                variant: self.variant,
                allow_unproven: false,
            };
            grouped_gemm::plan(problem, device, choice)
        });
        let call = Fp8LinearCall {
            problem,
            plan: plan.transpose()?,
        };
        let sorted = self.sorted.clone();
        let y = Dispatch::moe_fp8_linear(x.into_dispatch(), weights.coded(bias), sorted, call);
        Ok(Tensor::from_dispatch(y))
    }

    /// \[R, 3·width\]: every row between its neighbours in its expert and its sequence of
    /// `sequence` tokens, or after its two predecessors when `causal`; zeros beyond the ends.
    pub(super) fn neighbours(
        &self,
        rows: Tensor<2>,
        sequence: usize,
        causal: bool,
    ) -> Result<Tensor<2>, Error> {
        let (slots, experts) = (self.routing.slots(), self.routing.experts());
        let sort = permute::Problem::new(slots, experts, 1)?.with_row_bound(self.row_bound)?;
        let (width, top_k) = (rows.dims()[1], self.routing.top_k());
        let problem = neighbours::Problem::new(sort, width, top_k, sequence, causal)?;
        let element = element(rows.dtype())?;
        let plan = self.capability.as_ref();
        let plan = plan.map(|device| neighbours::plan(problem, element, device));
        let call = NeighboursCall {
            problem,
            plan: plan.transpose()?,
        };
        let rows = Dispatch::moe_neighbours(rows.into_dispatch(), self.sorted.clone(), call);
        Ok(Tensor::from_dispatch(rows))
    }

    /// \[R, heads·D\]: rows of one expert and one sequence of `sequence` tokens attend to each
    /// other, to earlier ones and themselves only when `causal`.
    pub(super) fn attention(
        &self,
        [q, k, v]: [Tensor<2>; 3],
        heads: usize,
        sequence: usize,
        causal: bool,
    ) -> Result<Tensor<2>, Error> {
        let r = &self.routing;
        let segments = Segments::new(r.slots(), r.experts(), r.top_k(), sequence)?;
        let segments = segments.with_row_bound(self.row_bound)?;
        ops::attention::run([q, k, v], self.grouping(), segments, (heads, causal))
    }

    /// The fused feed-forward experts of x \[T,H\] with router weights \[T,K\].
    pub(super) fn feed_forward(
        &self,
        x: Tensor<2>,
        weights: Tensor<2>,
        experts: ExpertWeights<Dispatch>,
        call: ExpertsCall,
    ) -> Tensor<2> {
        let y = Dispatch::moe_experts(
            x.into_dispatch(),
            weights.into_dispatch(),
            self.sorted.clone(),
            experts,
            call,
        );
        Tensor::from_dispatch(y)
    }

    /// The call of [`Assignment::feed_forward`] for a layer of this shape.
    pub(super) fn feed_forward_call(
        &self,
        shape: moe::Problem,
        records: bool,
        keep: moe::Keep,
        clock: Option<StageClock>,
    ) -> Result<ExpertsCall, Error> {
        let problem = moe::Problem {
            routing: self.routing,
            row_bound: self.row_bound,
            ..shape
        };
        problem.check()?;
        let (mut plan, mut training) = (None, None);
        if let (Some(device), Some(variant)) = (&self.capability, self.variant) {
            let choice = Choice {
                variant: Some(variant),
                allow_unproven: true,
            };
            plan = Some(moe::plan(problem, device, choice)?);
            if records {
                training = Some(moe::plan_training(problem, variant, device)?);
            }
        }
        Ok(ExpertsCall {
            problem,
            plan,
            training,
            keep,
            clock,
        })
    }
}
