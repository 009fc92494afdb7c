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
//! | combine | 1 | [`permute::combine`] |
//!
//! Nothing is read back; buffers are sized for the worst routing. Beside its inputs and y a
//! forward holds the hidden activations \[S,F\], the slot outputs \[S,H\] and a few words per slot.

use crate::element::Element;
use crate::error::{ShapeError, Unsupported};
use crate::grouped_gemm::{self, Activation, Choice, Operands, Rows};
use crate::permute::{self, Capacity, RowsPlan, RowsProblem, capacity, combine};
use crate::routing;
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::Capability;

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
}

impl Problem {
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
    combine: RowsPlan,
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
    let rule = problem.capacity.map(|_| capacity::plan(sort, device));
    let rows = RowsProblem::new(&r, r.slots(), problem.hidden, problem.element)?;
    Ok(Plan {
        problem,
        up,
        down,
        sort: permute::plan(sort, device)?,
        capacity: rule.transpose()?,
        combine: permute::plan_rows(rows, device)?,
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
    let sorted = launch_sort(client, plan, &buffers);
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

    // The product scatters to row order[r] of its output; with this order its rows stay sorted.
    let in_place: Vec<u32> = (0..slots as u32).collect();
    let rows = client.empty(slots * problem.hidden * bytes);
    let operands = Operands {
        x: hidden,
        order: client.create_from_slice(u32::as_bytes(&in_place)),
        weights: buffers.w_out,
        bias: buffers.b_out,
        out: rows.clone(),
        ..operands
    };
    grouped_gemm::launch(client, &plan.down, &operands);
    done(Stage::Gemm2);

    let combined = combine::CombineBuffers {
        positions: sorted.positions,
        weights: Some(buffers.weights),
        rows,
        y: buffers.y,
    };
    combine::launch(client, &plan.combine, combined);
    done(Stage::Combine);
}

/// Sorts the slots, after those over capacity were dropped.
fn launch_sort(client: &Client, plan: &Plan, buffers: &Buffers) -> permute::SortBuffers {
    let sort = &plan.sort.problem;
    let sorted = permute::SortBuffers {
        dropped: buffers.dropped.clone(),
        ..permute::SortBuffers::new(client, sort, buffers.indices.clone())
    };
    permute::launch(client, &plan.sort, &sorted);
    let (Some(capacity), Some(rule)) = (&plan.problem.capacity, &plan.capacity) else {
        return sorted;
    };
    let limit = capacity.slots_per_expert(sort.slots(), sort.experts()) as u32;
    let kept = permute::SortBuffers {
        keys: client.empty(sort.slots() * 4),
        ..sorted.clone()
    };
    let dropping = capacity::CapacityBuffers {
        order: sorted.order,
        offsets: sorted.offsets,
        weights: buffers.weights.clone(),
        capacities: client.create_from_slice(u32::as_bytes(&vec![limit; sort.experts()])),
        keys: kept.keys.clone(),
    };
    capacity::launch(client, rule, dropping);
    permute::launch(client, &plan.sort, &kept);
    kept
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
    let weights: Vec<f32> = inputs.weights.iter().map(|w| *w as f32).collect();
    let keys = match problem.capacity {
        Some(capacity) => {
            let limit = capacity.slots_per_expert(r.slots(), r.experts()) as u32;
            capacity::reference(inputs.indices, &weights, &vec![limit; r.experts()])
        }
        None => inputs.indices.to_vec(),
    };
    let sorted = permute::reference(&keys, r.experts());
    let x: Vec<f64> = inputs.x.iter().map(|x| f64::from(*x)).collect();
    let hidden = grouped_gemm::reference(&problem.up()?, &sorted, &x, inputs.w_in, inputs.b_in);
    // As in `launch`: an order under which the rows of the second product stay sorted.
    let in_place = permute::Sorted {
        order: (0..r.slots() as u32).collect(),
        ..sorted.clone()
    };
    let rows = grouped_gemm::reference(
        &problem.down()?,
        &in_place,
        &hidden,
        inputs.w_out,
        inputs.b_out,
    );
    let shape = RowsProblem::new(r, r.slots(), problem.hidden, problem.element)?;
    let y = combine::reference(&shape, &sorted.positions, Some(inputs.weights), &rows)?;
    let dropped = keys
        .iter()
        .filter(|key| **key as usize >= r.experts())
        .count();
    Ok((y, dropped))
}
