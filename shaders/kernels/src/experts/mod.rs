//! How CubeCL computes [`moebius_ops::experts`], as a fixed number of launches.
//!
//! After routing and the sort ([`permute::sorting`]), a forward is two products ([`grouped_gemm`]), with one launch for each slab
//! of weights, and [`permute::combine`]; [`training`] lists the launches of the backward pass. Nothing is read back; buffers are
//! sized for the worst routing. In addition to its inputs and y, a forward holds the hidden activations \[R,F\], the rows of the
//! second product \[R,H\] and a few words per slot. A dense network is the two products alone, and y is the second one's rows.

pub mod training;

pub use training::{TrainingPlan, plan_training};

use crate::Stage;
use crate::grouped_gemm::{self, Choice, Operands, Segments};
use crate::permute::{self, RowsPlan, combine};
use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::experts::Problem;

/// A [`Problem`], planned for a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The problem.
    pub problem: Problem,
    /// The first product.
    pub up: grouped_gemm::Plan,
    /// The second product.
    pub down: grouped_gemm::Plan,
    combine: RowsPlan,
}

impl Plan {
    /// The number of launches of one sort and one forward, for every routing.
    pub fn launches(&self) -> usize {
        if self.problem.routing.slots() == 0 {
            return 0;
        }
        let products = self.up.launches() + self.down.launches();
        if self.problem.dense {
            return products;
        }
        let sort = moebius_ops::permute::sorting::Problem::new(
            &self.problem.routing,
            self.problem.capacity,
            false,
        );
        sort.map_or(0, |sort| sort.launches()) + products + 1
    }
}

/// Plans the experts of a layer.
///
/// # Errors
/// [`PlanError`] with the size that is wrong, or with what a kernel needs and the device lacks.
pub fn plan(problem: Problem, device: &Capability, choice: Choice) -> Result<Plan, PlanError> {
    let up = grouped_gemm::plan(problem.up()?, device, choice)?;
    Ok(Plan {
        problem,
        // Both products walk the same list of tiles.
        down: grouped_gemm::plan_over_tiles(problem.down()?, device, up.variant)?,
        up,
        combine: permute::plan_rows(problem.output_rows()?, device)?,
    })
}

buffers! {
    /// Weights and biases of the experts.
    pub struct Weights {
        pub w_in: Handle => "[E, F or 2F, H]" read,
        pub b_in: Option<Handle> => "[E, F or 2F]" read,
        pub w_out: Handle => "[E,H,F]" read,
        pub b_out: Option<Handle> => "[E,H]" read,
    }
}

buffers! {
    /// The results of a sort that locate the experts' rows.
    pub struct Slots {
        pub weights: Handle => "[T,K] f32" read,
        /// The segments of the experts, read.
        pub segments: Segments,
        pub positions: Handle => "[S] u32" read: "the sorted row of a slot",
    }
}

buffers! {
    /// Buffers of one forward.
    pub struct Buffers {
        pub x: Handle => "[T,H]" read,
        /// The results of the sort, read; absent in a dense network.
        pub slots: Option<Slots> = "positions",
        /// The weights and biases, read.
        pub experts: Weights,
        pub y: Handle = "y" | "dy" => "[T,H]" written,
    }
}

impl Buffers {
    /// The rows of each expert; `None` in a dense network.
    fn segments(&self) -> Option<Segments> {
        self.slots.as_ref().map(|slots| slots.segments.clone())
    }
}

/// Enqueues the forward; calls `done` after the launches of each stage.
pub fn launch(client: &Client, plan: &Plan, buffers: Buffers, done: &mut dyn FnMut(Stage)) {
    let problem = &plan.problem;
    if problem.routing.slots() == 0 {
        return;
    }
    let hidden = client.empty(problem.row_bound * problem.inter * problem.element.bytes());
    let tensors = [&buffers.x, &buffers.experts.w_in, &hidden];
    launch_product(client, &plan.up, &buffers, tensors, &buffers.experts.b_in);
    done(Stage::Gemm1);
    launch_down(client, plan, buffers, hidden, done);
}

/// Enqueues a product of the rows of every expert; the handles are x, W and the output.
fn launch_product(
    client: &Client,
    plan: &grouped_gemm::Plan,
    buffers: &Buffers,
    [x, weights, out]: [&Handle; 3],
    bias: &Option<Handle>,
) {
    let operands = Operands {
        x: x.clone(),
        segments: buffers.segments(),
        weights: weights.clone(),
        scales_or_places: None,
        bias: bias.clone(),
        out: out.clone(),
    };
    grouped_gemm::launch(client, plan, operands);
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
    let rows = match buffers.slots {
        Some(_) => client.empty(problem.row_bound * problem.hidden * problem.element.bytes()),
        None => buffers.y.clone(),
    };
    let (experts, tensors) = (&buffers.experts, [&hidden, &buffers.experts.w_out, &rows]);
    launch_product(client, &plan.down, &buffers, tensors, &experts.b_out);
    done(Stage::Gemm2);
    let Some(slots) = buffers.slots else {
        return;
    };
    let combined = combine::CombineBuffers {
        positions: slots.positions,
        weights: Some(slots.weights),
        rows,
        y: buffers.y,
    };
    combine::launch(client, &plan.combine, combined);
    done(Stage::Combine);
}
