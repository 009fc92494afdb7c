//! The compiled variants of the sort, the drop rule, and the moves of rows.

use super::{Problem, RowsPlan, SortBuffers};
use super::{capacity, combine, dispatch, rows, weights_gradient};
use crate::emit::{KernelEntry, Machine, Planned};
use crate::error::PlanError;
use crate::named::FromNames;
use cubecl::client::Client;
use moebius_ops::permute::RowsProblem;
use moebius_ops::permute::capacity::Capacity;
use moebius_ops::{Element, Mismatch, routing};

/// A sort of the slots of 1024 tokens, 2 of 8 experts, in tiles of 64 rows.
fn problem() -> Result<Problem, Mismatch> {
    Problem::new(2048, 8, 64)
}

fn sort(at: &Machine) -> Planned {
    let plan = super::plan(problem()?, &at.capability)?;
    let buffers = SortBuffers::new(at.client(), &plan.problem, at.buffer());
    super::launch(at.client(), &plan, &buffers);
    Ok(())
}

fn drop_over_capacity(at: &Machine) -> Planned {
    let plan = capacity::plan(problem()?, &at.capability);
    at.launch(&[], plan, capacity::launch)
}

fn capacities(at: &Machine, given: bool) -> Planned {
    let capacity = Capacity::new(1.25, 4)?;
    let plan = capacity::plan_capacities(problem()?, capacity, &at.capability);
    let given = [("mask", given), ("factors", given)];
    at.launch(&given, plan, capacity::launch_capacities)
}

/// Plans moves of rows of 512 elements.
fn plan_rows(at: &Machine, element: Element) -> Result<RowsPlan, PlanError> {
    let routing = routing::Problem::new(1024, 8, 2)?;
    let problem = RowsProblem::new(&routing, routing.slots(), 512, element)?;
    Ok(super::plan_rows(problem, &at.capability)?)
}

/// Moves in every element type, with and without weights.
fn moves<B: FromNames + 'static>(
    kernel: &'static str,
    launch: fn(&Client, &RowsPlan, B),
) -> impl Iterator<Item = KernelEntry> {
    let both = |element| [(element, true), (element, false)];
    let all = Element::ALL.into_iter().flat_map(both);
    all.map(move |(element, weighted)| {
        let name = rows::name(kernel, element, weighted);
        let entry = KernelEntry::new("permute", kernel, name, move |at| {
            at.launch(&[("weights", weighted)], plan_rows(at, element), launch)
        });
        entry.of(element)
    })
}

/// The sort, the capacities, and the moves of rows to their experts and back in every element type.
pub fn entries() -> Vec<KernelEntry> {
    let sorts = ["sort_histogram", "sort_scan", "sort_scatter"];
    let mut entries = Vec::from(sorts.map(|name| KernelEntry::new("permute", "sort", name, sort)));
    let name = "drop_over_capacity";
    let drop = KernelEntry::new("permute", "capacity", name, drop_over_capacity);
    entries.push(drop);
    for given in [false, true] {
        let name = capacity::capacities_name(given, given);
        entries.push(KernelEntry::new("permute", "capacity", name, move |at| {
            capacities(at, given)
        }));
    }
    entries.extend(moves("combine", combine::launch));
    entries.extend(moves("dispatch", dispatch::launch));
    for element in Element::ALL {
        let name = format!("combine_weights_gradient_{element}");
        let launch =
            move |at: &Machine| at.launch(&[], plan_rows(at, element), weights_gradient::launch);
        entries.push(KernelEntry::new("permute", "weights gradient", name, launch).of(element));
    }
    entries
}
