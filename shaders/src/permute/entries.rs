//! What is compiled of the sort, the drop rule, and the moves of rows.

use super::capacity::{self, CapacitiesBuffers, CapacityBuffers};
use super::neighbours::{self, NeighboursBuffers};
use super::{Problem, SortBuffers, combine, dispatch, rows, weights_gradient};
use crate::emit::{KernelEntry, Machine, Planned};
use crate::error::PlanError;
use moebius_ops::permute::RowsProblem;
use moebius_ops::permute::capacity::Capacity;
use moebius_ops::permute::neighbours::Problem as Neighbours;
use moebius_ops::{Element, ShapeError, routing};

/// The slots of 1024 tokens, 2 of 8 experts, in tiles of 64 rows.
fn problem() -> Result<Problem, ShapeError> {
    Problem::new(2048, 8, 64)
}

fn sort(at: &Machine) -> Planned {
    let plan = super::plan(problem()?, &at.capability)?;
    let buffers = SortBuffers::new(at.client(), &plan.problem, at.buffer());
    super::launch(at.client(), &plan, &buffers);
    Ok(())
}

fn drop_over_capacity(at: &Machine) -> Planned {
    let plan = capacity::plan(problem()?, &at.capability)?;
    let buffers = CapacityBuffers {
        order: at.buffer(),
        offsets: at.buffer(),
        weights: at.buffer(),
        capacities: at.buffer(),
        keys: at.buffer(),
    };
    capacity::launch(at.client(), &plan, buffers);
    Ok(())
}

fn capacities(at: &Machine, given: bool) -> Planned {
    let capacity = Capacity::new(1.25, 4)?;
    let plan = capacity::plan_capacities(problem()?, capacity, &at.capability)?;
    let buffers = CapacitiesBuffers {
        mask: given.then(|| at.buffer()),
        factors: given.then(|| at.buffer()),
        capacities: at.buffer(),
    };
    capacity::launch_capacities(at.client(), &plan, buffers);
    Ok(())
}

/// Moves of rows of 512.
fn plan_rows(at: &Machine, element: Element) -> Result<super::RowsPlan, PlanError> {
    let routing = routing::Problem::new(1024, 8, 2)?;
    let problem = RowsProblem::new(&routing, routing.slots(), 512, element)?;
    Ok(super::plan_rows(problem, &at.capability)?)
}

fn combine(at: &Machine, element: Element, weighted: bool) -> Planned {
    let buffers = combine::CombineBuffers {
        positions: at.buffer(),
        weights: weighted.then(|| at.buffer()),
        rows: at.buffer(),
        y: at.buffer(),
    };
    combine::launch(at.client(), &plan_rows(at, element)?, buffers);
    Ok(())
}

fn dispatch(at: &Machine, element: Element, weighted: bool) -> Planned {
    let buffers = dispatch::DispatchBuffers {
        order: at.buffer(),
        offsets: at.buffer(),
        weights: weighted.then(|| at.buffer()),
        x: at.buffer(),
        rows: at.buffer(),
    };
    dispatch::launch(at.client(), &plan_rows(at, element)?, buffers);
    Ok(())
}

fn weights_gradient(at: &Machine, element: Element) -> Planned {
    let buffers = weights_gradient::WeightsGradientBuffers {
        positions: at.buffer(),
        dy: at.buffer(),
        rows: at.buffer(),
        dweights: at.buffer(),
    };
    weights_gradient::launch(at.client(), &plan_rows(at, element)?, buffers);
    Ok(())
}

/// Both directions, one after the other.
fn neighbours(at: &Machine, element: Element, causal: bool) -> Planned {
    let problem = Neighbours::new(problem()?, 512, 2, 128, causal)?;
    let plan = neighbours::plan(problem, element, &at.capability)?;
    let buffers = || NeighboursBuffers {
        order: at.buffer(),
        offsets: at.buffer(),
        narrow: at.buffer(),
        wide: at.buffer(),
    };
    neighbours::launch(at.client(), &plan, buffers());
    neighbours::launch_backward(at.client(), &plan, buffers());
    Ok(())
}

/// Moves of every element type, weighted and not.
fn moves(
    kernel: &'static str,
    launch: fn(&Machine, Element, bool) -> Planned,
) -> impl Iterator<Item = KernelEntry> {
    let both = |element| [(element, true), (element, false)];
    Element::ALL
        .into_iter()
        .flat_map(both)
        .map(move |(element, weighted)| {
            let name = rows::name(kernel, element, weighted);
            let entry = KernelEntry::new(("permute", kernel), name, move |at| {
                launch(at, element, weighted)
            });
            entry.of(element)
        })
}

pub(crate) fn entries() -> Vec<KernelEntry> {
    let sorts = ["sort_histogram", "sort_scan", "sort_scatter"];
    let mut entries =
        Vec::from(sorts.map(|name| KernelEntry::new(("permute", "sort"), name, sort)));
    let capacity = ("permute", "capacity");
    entries.push(KernelEntry::new(
        capacity,
        "drop_over_capacity",
        drop_over_capacity,
    ));
    for given in [false, true] {
        let name = capacity::capacities_name(given, given);
        entries.push(KernelEntry::new(capacity, name, move |at| {
            capacities(at, given)
        }));
    }
    entries.extend(moves("combine", combine));
    entries.extend(moves("dispatch", dispatch));
    for element in Element::ALL {
        let name = format!("combine_weights_gradient_{element}");
        let launch = move |at: &Machine| weights_gradient(at, element);
        entries.push(KernelEntry::new(("permute", "weights gradient"), name, launch).of(element));
    }
    let both = Element::ALL
        .into_iter()
        .flat_map(|e| [("neighbours", e, false), ("neighbours_backward", e, false)]);
    for (kernel, element, causal) in both.chain([("neighbours_causal", Element::F32, true)]) {
        let launch = move |at: &Machine| neighbours(at, element, causal);
        let entry = KernelEntry::new(
            ("permute", "neighbours"),
            format!("{kernel}_{element}"),
            launch,
        );
        entries.push(entry.of(element));
    }
    entries
}
