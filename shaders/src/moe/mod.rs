//! The experts of a mixture-of-experts layer, as a fixed number of launches.
//!
//! y_t = Σ_k w_tk · expert_{e(t,k)}(x_t), expert(x) = W_out · act(W_in · x + b_in) + b_out, gated:
//! W_out · (act(G x) ∘ (U x)). After routing the launches are
//!
//! | stage | launches | module |
//! |---|---|---|
//! | sort | 3, and 4 more with a capacity (drop rule, sort again) | [`permute`] |
//! | GEMM 1 | 1 per slab of weights | [`grouped_gemm`], [`Rows::Gather`] |
//! | GEMM 2 | 1 per slab of weights | [`grouped_gemm`], [`Rows::Scatter`] |
//! | combine | 1 | [`permute::sum`] |
//!
//! Nothing is read back; buffers are sized for the worst routing. Beside its inputs and y a
//! forward holds the hidden activations \[S,F\], the slot outputs \[S,H\] and a few words per slot.

pub mod sorting;

use crate::element::Element;
use crate::error::{ShapeError, Unsupported};
use crate::grouped_gemm::{self, Activation, Choice, Operands, Rows};
use crate::permute::{self, Capacity, drop_rule, sum};
use crate::routing;
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::Capability;

/// STUB
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// The first product of every slot, before the activation: F or 2F elements a slot.
    #[default]
    FirstProduct,
    /// Nothing but the inputs; the first product is computed again.
    Inputs,
}
/// STUB
#[derive(Clone, Debug)]
pub struct TrainingPlan;
/// STUB
pub fn plan_training(
    _: Problem,
    _: grouped_gemm::Variant,
    _: Keep,
    _: &Capability,
) -> Result<TrainingPlan, PlanError> {
    Ok(TrainingPlan)
}
/// STUB
pub fn plan_experts(
    p: Problem,
    _: grouped_gemm::Variant,
    c: &Capability,
) -> Result<Plan, PlanError> {
    plan(p, c, Choice::default())
}

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
            2 * self.inter
        } else {
            self.inter
        }
    }

    fn up(&self) -> Result<grouped_gemm::Problem, ShapeError> {
        let r = &self.routing;
        let problem =
            grouped_gemm::Problem::new(r.slots(), r.experts(), r.top_k(), self.inter, self.hidden)?;
        Ok(grouped_gemm::Problem {
            element: self.element,
            gated: self.gated,
            activation: Some(self.activation),
            bias: self.bias,
            ..problem
        })
    }

    fn down(&self) -> Result<grouped_gemm::Problem, ShapeError> {
        let r = &self.routing;
        let problem =
            grouped_gemm::Problem::new(r.slots(), r.experts(), r.top_k(), self.hidden, self.inter)?;
        Ok(grouped_gemm::Problem {
            element: self.element,
            rows: Rows::Scatter,
            bias: self.bias,
            ..problem
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

    /// Floating-point operations of both products, dropless.
    pub fn flops(&self) -> u64 {
        let products = if self.gated { 3 } else { 2 };
        2 * products * (self.routing.slots() * self.hidden) as u64 * self.inter as u64
    }

    /// Bytes a forward must hold: weights, x, y, hidden activations and slot outputs.
    pub fn floor_bytes(&self) -> u64 {
        let (h, f, e) = (self.hidden, self.inter, self.routing.experts());
        let projections = if self.gated { 3 } else { 2 };
        let weights = e * projections * h * f + e * h;
        let activations = 2 * self.routing.tokens() * h + self.routing.slots() * (f + h);
        ((weights + activations) * self.element.bytes()) as u64
    }
}

/// Why a layer can't run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The shapes are wrong.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The device can't.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
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
    sort: permute::Plan,
    capacity: Option<permute::CapacityPlan>,
    combine: permute::CombinePlan,
}

impl Plan {
    /// Launches of one call, whatever the routing.
    pub fn launches(&self) -> usize {
        if self.problem.routing.slots() == 0 {
            return 0;
        }
        let sort = if self.capacity.is_some() { 7 } else { 3 };
        sort + self.up.launches() + self.down.launches() + 1
    }
}

/// Plans the experts of a layer.
///
/// # Errors
/// [`PlanError`] with the size that is wrong, or what a kernel needs and the device lacks.
pub fn plan(problem: Problem, device: &Capability, choice: Choice) -> Result<Plan, PlanError> {
    let r = problem.routing;
    let up = grouped_gemm::plan(problem.up()?, device, choice)?;
    // Both products walk the same tiles, so the second takes the variant of the first.
    let same = Choice {
        variant: Some(up.variant),
        ..choice
    };
    let down = grouped_gemm::plan(problem.down()?, device, same)?;
    let sort = permute::Problem::new(r.slots(), r.experts(), up.tile_rows())?;
    let capacity = problem
        .capacity
        .map(|capacity| drop_rule::plan(sort, capacity, device));
    Ok(Plan {
        problem,
        up,
        down,
        sort: permute::plan(sort, device)?,
        capacity: capacity.transpose()?,
        combine: sum::plan(r, problem.hidden, problem.element, device)?,
    })
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
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Self; 5] = [
        Self::Router,
        Self::Sort,
        Self::Gemm1,
        Self::Gemm2,
        Self::Combine,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::Sort => "sort",
            Self::Gemm1 => "gemm 1",
            Self::Gemm2 => "gemm 2",
            Self::Combine => "combine",
        }
    }
}

/// Buffers of one call.
#[derive(Clone)]
pub struct Buffers {
    /// \[T,H\], read.
    pub x: Handle,
    /// \[T,K\] u32, read.
    pub indices: Handle,
    /// \[T,K\] f32, read.
    pub weights: Handle,
    /// \[E, F or 2F, H\], read.
    pub w_in: Handle,
    /// \[E, F or 2F\], read.
    pub b_in: Option<Handle>,
    /// \[E,H,F\], read.
    pub w_out: Handle,
    /// \[E,H\], read.
    pub b_out: Option<Handle>,
    /// \[T,H\], written.
    pub y: Handle,
    /// \[1\] u32, written: slots that reached no expert.
    pub dropped: Handle,
}

/// Enqueues the experts; calls `done` after the launches of every stage.
pub fn launch(client: &Client, plan: &Plan, buffers: Buffers, done: &mut dyn FnMut(Stage)) {
    let problem = &plan.problem;
    let slots = problem.routing.slots();
    if slots == 0 {
        return;
    }
    let (sorted, keys) = launch_sort(client, plan, &buffers);
    done(Stage::Sort);

    let bytes = problem.element.bytes();
    let hidden = client.empty(slots * problem.inter * bytes);
    let operands = Operands {
        x: buffers.x,
        order: sorted.order,
        offsets: sorted.offsets,
        tiles: sorted.tiles,
        weights: buffers.w_in,
        bias: buffers.b_in,
        out: hidden.clone(),
    };
    grouped_gemm::launch(client, &plan.up, &operands);
    done(Stage::Gemm1);

    let slot_outputs = client.empty(slots * problem.hidden * bytes);
    let operands = Operands {
        x: hidden,
        weights: buffers.w_out,
        bias: buffers.b_out,
        out: slot_outputs.clone(),
        ..operands
    };
    grouped_gemm::launch(client, &plan.down, &operands);
    done(Stage::Gemm2);

    let combined = permute::CombineBuffers {
        keys,
        weights: buffers.weights,
        slots: slot_outputs,
        y: buffers.y,
    };
    sum::launch(client, &plan.combine, combined);
    done(Stage::Combine);
}

/// Sorts the slots, drops those over capacity; returns the sort and the final keys.
fn launch_sort(client: &Client, plan: &Plan, buffers: &Buffers) -> (permute::SortBuffers, Handle) {
    let sort = &plan.sort.problem;
    let words = |len: usize| client.empty(len.max(1) * 4);
    let sorted = permute::SortBuffers {
        keys: buffers.indices.clone(),
        counts: words(sort.counts()),
        offsets: words(sort.experts() + 1),
        dropped: buffers.dropped.clone(),
        order: words(sort.slots()),
        tiles: words(2 * sort.max_tiles()),
    };
    permute::launch(client, &plan.sort, &sorted);
    let Some(capacity) = &plan.capacity else {
        return (sorted, buffers.indices.clone());
    };
    let keys = words(sort.slots());
    let rule = drop_rule::CapacityBuffers {
        order: sorted.order.clone(),
        offsets: sorted.offsets.clone(),
        weights: buffers.weights.clone(),
        keys: keys.clone(),
    };
    drop_rule::launch(client, capacity, rule);
    let kept = permute::SortBuffers {
        keys: keys.clone(),
        ..sorted
    };
    permute::launch(client, &plan.sort, &kept);
    (kept, keys)
}

/// Inputs of [`reference()`]: f32 copies of the buffers of the same names.
pub struct ReferenceInputs<'a> {
    /// \[T,H\].
    pub x: &'a [f32],
    /// \[T,K\].
    pub indices: &'a [u32],
    /// \[T,K\].
    pub weights: &'a [f64],
    /// \[E, F or 2F, H\].
    pub w_in: &'a [f32],
    /// \[E, F or 2F\].
    pub b_in: Option<&'a [f32]>,
    /// \[E,H,F\].
    pub w_out: &'a [f32],
    /// \[E,H\].
    pub b_out: Option<&'a [f32]>,
}

/// The oracle, in f64: y \[T,H\] and the number of slots that reached no expert.
///
/// # Errors
/// [`ShapeError`] when the problem's sizes are wrong.
pub fn reference(
    problem: &Problem,
    inputs: &ReferenceInputs,
) -> Result<(Vec<f64>, usize), ShapeError> {
    let r = &problem.routing;
    let capacity = problem
        .capacity
        .map(|c| c.slots_per_expert(r.slots(), r.experts()));
    let weights: Vec<f32> = inputs.weights.iter().map(|w| *w as f32).collect();
    let keys = match capacity {
        Some(capacity) => drop_rule::reference(inputs.indices, &weights, r.experts(), capacity),
        None => inputs.indices.to_vec(),
    };
    let sorted = permute::reference(&keys, r.experts());
    let x: Vec<f64> = inputs.x.iter().map(|x| f64::from(*x)).collect();
    let hidden = grouped_gemm::reference(&problem.up()?, &sorted, &x, inputs.w_in, inputs.b_in);
    let slots = grouped_gemm::reference(
        &problem.down()?,
        &sorted,
        &hidden,
        inputs.w_out,
        inputs.b_out,
    );
    let y = sum::reference(r, &keys, inputs.weights, &slots, problem.hidden)?;
    let dropped = keys
        .iter()
        .filter(|key| **key as usize >= r.experts())
        .count();
    Ok((y, dropped))
}
