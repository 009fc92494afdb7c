//! How CubeCL computes [`moebius_ops::permute::sorting`]: three launches of [`permute`]. A capacity adds five, for the
//! capacities, the drop rule ([`permute::capacity`]) and the sort of the remaining slots.

use crate::permute::{self, capacity};
use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::permute::sorting::Problem;

/// The drop rule of a sort.
#[derive(Clone, Debug, PartialEq)]
struct Rule {
    capacities: permute::CapacitiesPlan,
    drop: permute::CapacityPlan,
}

/// A [`Problem`], planned for a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The sort before slots are dropped.
    all: permute::Plan,
    /// The sort of the remaining slots.
    kept: permute::Plan,
    rule: Option<Rule>,
}

impl Plan {
    /// The number of tiles of the worst routing.
    pub fn max_tiles(&self) -> usize {
        self.kept.problem.max_tiles()
    }
}

/// Plans a sort into tiles of `tile_rows` rows, as the products over them require.
///
/// # Errors
/// [`PlanError`] with the size that is wrong, or with what a kernel needs and the device lacks.
pub fn plan(problem: Problem, tile_rows: usize, device: &Capability) -> Result<Plan, PlanError> {
    let all = moebius_ops::permute::Problem::new(problem.slots(), problem.experts(), tile_rows)?;
    let kept = match problem.row_bound() {
        0 => all,
        rows => all.with_row_bound(rows)?,
    };
    let rule = problem.capacity().map(|rule| -> Result<_, PlanError> {
        Ok(Rule {
            capacities: capacity::plan_capacities(all, rule, device)?,
            drop: capacity::plan(all, device)?,
        })
    });
    Ok(Plan {
        all: permute::plan(all, device)?,
        kept: permute::plan(kept, device)?,
        rule: rule.transpose()?,
    })
}

buffers! {
    /// The results of a sort, all u32; see [`permute`].
    pub struct Sorted {
        pub order: Handle => "[S]" written: "the slot of a sorted row",
        pub offsets: Handle => "[E+1]" written,
        pub tiles: Handle => "[3·max_tiles]" written,
        pub positions: Handle => "[S]" written: "the sorted row of a slot",
        pub dropped: Handle => "[1]" written: "slots that reach no expert",
    }
}

buffers! {
    /// Buffers of a sort.
    pub struct Buffers {
        pub indices: Handle => "[T,K] u32" read,
        pub weights: Handle => "[T,K] f32" read,
        pub mask: Option<Handle> => "[E] u32" read: "experts that take any",
        pub factors: Option<Handle> => "[E] f32" read: "capacity factors",
        /// The results of the sort, written.
        pub sorted: Sorted,
    }
}

/// Enqueues a sort.
pub fn launch(client: &Client, plan: &Plan, buffers: Buffers) {
    let problem = &plan.all.problem;
    if problem.slots() == 0 {
        return;
    }
    let into = |sort: &permute::Plan, keys: Handle| {
        let sorted = buffers.sorted.clone();
        let sorted = permute::SortBuffers {
            keys,
            counts: empty_words(client, permute::counts(&sort.problem)),
            offsets: sorted.offsets,
            dropped: sorted.dropped,
            order: sorted.order,
            positions: sorted.positions,
            tiles: sorted.tiles,
        };
        permute::launch(client, sort, &sorted);
    };
    let Some(rule) = &plan.rule else {
        return into(&plan.all, buffers.indices);
    };
    // The first sort, of all slots, may need more tiles than the result has.
    let first = permute::SortBuffers::new(client, problem, buffers.indices.clone());
    permute::launch(client, &plan.all, &first);
    let capacities = empty_words(client, problem.experts());
    let shares = capacity::CapacitiesBuffers {
        mask: buffers.mask.clone(),
        factors: buffers.factors.clone(),
        capacities: capacities.clone(),
    };
    capacity::launch_capacities(client, &rule.capacities, shares);
    let keys = empty_words(client, problem.slots());
    let drop = capacity::CapacityBuffers {
        order: first.order,
        offsets: first.offsets,
        weights: buffers.weights.clone(),
        capacities,
        keys: keys.clone(),
    };
    capacity::launch(client, &rule.drop, drop);
    into(&plan.kept, keys);
}
