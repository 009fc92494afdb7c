//! The feed-forward experts of a mixture-of-experts layer, as a fixed number of launches.
//!
//! y_t = Σ_k w_tk · expert_{e(t,k)}(x_t), expert(x) = W_out · act(W_in · x + b_in) + b_out, gated:
//! W_out · (act(G x) ∘ (U x)). After routing and the sort ([`sorting`]) the launches are
//!
//! | stage | launches | module |
//! |---|---|---|
//! | GEMM 1 | 1 per slab of weights | [`grouped_gemm`], [`Source::Tokens`] |
//! | GEMM 2 | 1 per slab of weights | [`grouped_gemm`], [`Source::Sorted`] |
//! | combine | 1 | [`permute::combine`] |
//!
//! and those of the backward pass are listed in [`training`]. Nothing is read back; buffers are
//! sized for the worst routing. Beside its inputs and y a forward holds the hidden activations
//! \[R,F\], the rows of the second product \[R,H\] and a few words per slot.

pub mod linear;
mod oracle;
pub mod sorting;
pub mod training;

pub use oracle::{ReferenceGradients, ReferenceInputs, reference, reference_backward};
pub use training::{Keep, TrainingPlan, plan_training};

use crate::element::Element;
use crate::error::{PlanError, ShapeError};
use crate::grouped_gemm::{self, Activation, Choice, Operands, Source};
use crate::permute::{self, Capacity, RowsPlan, RowsProblem, combine};
use crate::routing;
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::Capability;
use sorting::Sorted;

/// The shape of a layer's experts and of one batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Problem {
    /// Tokens, experts, choices per token.
    pub routing: routing::Problem,
    /// Width of a token H.
    pub hidden: usize,
    /// Width of an expert F.
    pub inter: usize,
    /// Type of x, the weights and y.
    pub element: Element,
    /// Gate and up projections instead of one.
    pub gated: bool,
    /// Between the two products.
    pub activation: Activation,
    /// Whether the experts have biases.
    pub bias: bool,
    /// Slots an expert takes; `None` never drops.
    pub capacity: Option<Capacity>,
    /// The most slots that reach an expert R; S unless a capacity is known here.
    pub row_bound: usize,
}

impl Problem {
    /// Columns of the first product: F, or 2F when gated.
    pub fn columns_in(&self) -> usize {
        if self.gated {
            self.inter.saturating_mul(2)
        } else {
            self.inter
        }
    }

    /// A product of the sorted rows: \[.., `k`\] · \[`n`, `k`\]ᵀ per expert.
    fn product(&self, n: usize, k: usize) -> Result<grouped_gemm::Problem, ShapeError> {
        let r = &self.routing;
        let problem = grouped_gemm::Problem::new(r.slots(), r.experts(), r.top_k(), n, k)?;
        Ok(grouped_gemm::Problem {
            element: self.element,
            row_bound: self.row_bound,
            rows: Source::Sorted,
            ..problem
        })
    }

    fn up(&self) -> Result<grouped_gemm::Problem, ShapeError> {
        Ok(grouped_gemm::Problem {
            rows: Source::Tokens,
            gated: self.gated,
            activation: Some(self.activation),
            bias: self.bias,
            ..self.product(self.inter, self.hidden)?
        })
    }

    fn down(&self) -> Result<grouped_gemm::Problem, ShapeError> {
        Ok(grouped_gemm::Problem {
            bias: self.bias,
            ..self.product(self.hidden, self.inter)?
        })
    }

    /// Checks the sizes of both products.
    ///
    /// # Errors
    /// [`ShapeError`] when a size is 0 or an index would not fit 31 bits.
    pub fn check(&self) -> Result<(), ShapeError> {
        self.up()?;
        self.down().map(drop)
    }

    /// Floating-point operations of both products of as many rows as a routing can produce.
    pub fn flops(&self) -> u64 {
        let products = if self.gated { 3 } else { 2 };
        2 * products * (self.row_bound * self.hidden) as u64 * self.inter as u64
    }

    /// Bytes a forward must hold: weights, x, y, hidden activations and the experts' outputs.
    pub fn floor_bytes(&self) -> u64 {
        let (h, f, e) = (self.hidden, self.inter, self.routing.experts());
        let projections = if self.gated { 3 } else { 2 };
        let weights = e * projections * h * f + e * h;
        let activations = 2 * self.routing.tokens() * h + self.row_bound * (f + h);
        ((weights + activations) * self.element.bytes()) as u64
    }
}

/// A [`Problem`] this device can run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What is computed.
    pub problem: Problem,
    /// First product.
    pub up: grouped_gemm::Plan,
    /// Second product.
    pub down: grouped_gemm::Plan,
    combine: RowsPlan,
}

impl Plan {
    /// Launches of one sort and one call, whatever the routing.
    pub fn launches(&self) -> usize {
        if self.problem.routing.slots() == 0 {
            return 0;
        }
        let sort = sorting::Problem::new(&self.problem.routing, self.problem.capacity, false);
        sort.map_or(0, |sort| sort.launches()) + self.up.launches() + self.down.launches() + 1
    }
}

/// Plans the experts of a layer.
///
/// # Errors
/// [`PlanError`] with the size that is wrong, or what a kernel needs and the device lacks.
pub fn plan(problem: Problem, device: &Capability, choice: Choice) -> Result<Plan, PlanError> {
    let up = grouped_gemm::plan(problem.up()?, device, choice)?;
    // Both products walk the same tiles, so the second takes the variant of the first.
    let same = Choice {
        variant: Some(up.variant),
        ..choice
    };
    Ok(Plan {
        problem,
        down: grouped_gemm::plan(problem.down()?, device, same)?,
        up,
        combine: permute::plan_rows(rows(&problem)?, device)?,
    })
}

/// The rows of the second product.
fn rows(problem: &Problem) -> Result<RowsProblem, ShapeError> {
    let (r, bound) = (&problem.routing, problem.row_bound);
    RowsProblem::new(r, bound, problem.hidden, problem.element)
}

/// A part of the forward that is timed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Router logits and the choice of experts.
    Router,
    /// Histogram, scan, scatter, and the drop rule.
    Sort,
    /// First product with activation.
    Gemm1,
    /// Second product.
    Gemm2,
    /// Weighted sum of the slots.
    Combine,
    /// Both products and the weighted sum, where they are one program.
    Experts,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Self; 6] = [
        Self::Router,
        Self::Sort,
        Self::Gemm1,
        Self::Gemm2,
        Self::Combine,
        Self::Experts,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::Sort => "sort",
            Self::Gemm1 => "gemm 1",
            Self::Gemm2 => "gemm 2",
            Self::Combine => "combine",
            Self::Experts => "experts",
        }
    }
}

/// Weights and biases of the experts.
#[derive(Clone)]
pub struct Weights {
    /// \[E, F or 2F, H\].
    pub w_in: Handle,
    /// \[E, F or 2F\].
    pub b_in: Option<Handle>,
    /// \[E,H,F\].
    pub w_out: Handle,
    /// \[E,H\].
    pub b_out: Option<Handle>,
}

/// Buffers of one call.
#[derive(Clone)]
pub struct Buffers {
    /// \[T,H\], read.
    pub x: Handle,
    /// \[T,K\] f32, read.
    pub weights: Handle,
    /// Read.
    pub sorted: Sorted,
    /// Read.
    pub experts: Weights,
    /// \[T,H\], written.
    pub y: Handle,
}

/// Enqueues the experts; calls `done` after the launches of every stage.
pub fn launch(client: &Client, plan: &Plan, buffers: Buffers, done: &mut dyn FnMut(Stage)) {
    let problem = &plan.problem;
    if problem.routing.slots() == 0 {
        return;
    }
    let hidden = client.empty(problem.row_bound * problem.inter * problem.element.bytes());
    let experts = &buffers.experts;
    let operands = Operands {
        x: buffers.x.clone(),
        segments: Some(buffers.sorted.segments()),
        weights: experts.w_in.clone(),
        scales: None,
        bias: experts.b_in.clone(),
        out: hidden.clone(),
    };
    grouped_gemm::launch(client, &plan.up, &operands);
    done(Stage::Gemm1);
    launch_down(client, plan, buffers, hidden, done);
}

/// Enqueues the second product and the weighted sum.
fn launch_down(
    client: &Client,
    plan: &Plan,
    buffers: Buffers,
    hidden: Handle,
    done: &mut dyn FnMut(Stage),
) {
    let problem = &plan.problem;
    let rows = client.empty(problem.row_bound * problem.hidden * problem.element.bytes());
    let operands = Operands {
        x: hidden,
        segments: Some(buffers.sorted.segments()),
        weights: buffers.experts.w_out,
        scales: None,
        bias: buffers.experts.b_out,
        out: rows.clone(),
    };
    grouped_gemm::launch(client, &plan.down, &operands);
    done(Stage::Gemm2);
    let combined = combine::CombineBuffers {
        positions: buffers.sorted.positions,
        weights: Some(buffers.weights),
        rows,
        y: buffers.y,
    };
    combine::launch(client, &plan.combine, combined);
    done(Stage::Combine);
}
