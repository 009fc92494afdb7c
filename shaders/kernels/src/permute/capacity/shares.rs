//! How CubeCL computes [`moebius_ops::permute::capacities_reference`]: one cube; about 10·E operations.

use super::{Capacity, partial_len, sum_of_units};
use crate::permute::SCAN_UNITS;
use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::permute::Problem;

/// Capacities this device can compute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapacitiesPlan {
    problem: Problem,
    capacity: Capacity,
    units: usize,
}

/// Plans the capacities of the experts of `problem`.
///
/// # Errors
/// [`Unsupported`] when they exceed one binding.
pub fn plan_capacities(
    problem: Problem,
    capacity: Capacity,
    device: &Capability,
) -> Result<CapacitiesPlan, Unsupported> {
    crate::fits_binding("capacity", problem.experts() * 4, device)?;
    Ok(CapacitiesPlan {
        problem,
        capacity,
        units: match device.cpu_cores {
            Some(_) => 1,
            None => SCAN_UNITS.min(device.limits.max_units_per_cube.max(1) as usize),
        },
    })
}

/// Capacities that no factor of an expert's own changes.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Rule {
    slots: u32,
    /// With the factor of all experts.
    even: u32,
    least: u32,
}

/// What expert `e` takes when all are available.
#[cube]
fn own_capacity(factors: &ComptimeOption<&[f32]>, rule: &Rule, expert: usize, experts: u32) -> u32 {
    #[comptime]
    match factors {
        ComptimeOption::Some(factors) => {
            let all = f32::cast_from(rule.slots) * factors[expert];
            // More than any share of the slots, and the division's rounding up can't overflow.
            let most = 2_147_483_648.0f32;
            let all = u32::cast_from(clamp(all, 0.0f32, most).ceil());
            min(max(all.div_ceil(experts), rule.least), rule.slots)
        }
        ComptimeOption::None => rule.even,
    }
}

#[cube]
fn available(mask: &ComptimeOption<&[u32]>, expert: usize) -> bool {
    #[comptime]
    match mask {
        ComptimeOption::Some(mask) => mask[expert] != 0,
        ComptimeOption::None => true.runtime(),
    }
}

#[cube(launch_unchecked)]
fn expert_capacities(
    mask: ComptimeOption<&[u32]>,
    factors: ComptimeOption<&[f32]>,
    capacities: &mut [u32],
    rule: Rule,
    #[comptime] units: usize,
) {
    let experts = capacities.len();
    let unit = UNIT_POS_X as usize;
    let mut partial = Shared::<[u32]>::new_slice(comptime!(partial_len(units)));
    let mut lost = 0u32;
    let mut takers = 0u32;
    for expert in range_stepped(unit, experts, units) {
        let own = own_capacity(&factors, &rule, expert, experts as u32);
        let takes = available(&mask, expert);
        capacities[expert] = select(takes, own, 0u32);
        lost += select(takes, 0u32, own);
        takers += select(takes, 1u32, 0u32);
    }
    let lost = sum_of_units(&mut partial, lost, units);
    let takers = sum_of_units(&mut partial, takers, units);
    let share = lost / max(takers, 1u32);
    for expert in range_stepped(unit, experts, units) {
        if available(&mask, expert) {
            capacities[expert] += share;
        }
    }
}

buffers! {
    /// Buffers of the capacities.
    pub struct CapacitiesBuffers {
        pub mask: Option<Handle> => "[E] u32" read: "non-zero = available; all without",
        pub factors: Option<Handle> => "[E] f32" read: "capacity factors, instead of one for all",
        pub capacities: Handle => "[E] u32" written,
    }
}

pub(in crate::permute) fn capacities_name(masked: bool, factors: bool) -> String {
    let masked = launched::suffix(masked, "_masked");
    format!(
        "expert_capacities{masked}{}",
        launched::suffix(factors, "_factors")
    )
}

/// Enqueues the capacities: one launch.
pub fn launch_capacities(client: &Client, plan: &CapacitiesPlan, buffers: CapacitiesBuffers) {
    let (slots, experts) = (plan.problem.slots(), plan.problem.experts());
    let even = plan.capacity.slots_per_expert(slots, experts);
    let rule = RuleLaunch::new(
        slots as u32,
        even as u32,
        plan.capacity.min.min(slots) as u32,
    );
    launched::note(|| capacities_name(buffers.mask.is_some(), buffers.factors.is_some()));
    // SAFETY: the buffers have one entry per expert.
    unsafe {
        expert_capacities::launch_unchecked(
            client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(plan.units as u32),
            buffers.mask.map(bind).into(),
            buffers.factors.map(bind).into(),
            bind(buffers.capacities),
            rule,
            plan.units,
        );
    }
}
