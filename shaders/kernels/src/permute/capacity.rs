//! How CubeCL computes [`moebius_ops::permute::capacity`].
//!
//! The units of an expert find the C_e-th largest weight by bisection over the 31 bits of a non-negative f32 (bits and values
//! have the same order); then they keep the heavier slots and the first of the equal ones. A GPU has a cube per expert, a CPU one
//! unit per expert. Reads: 32 times the expert's slots, from cache.

use super::{Problem, SCAN_UNITS};
use crate::prelude::*;
use crate::rounds::{fits_rounds, looped};
use cubecl::prelude::*;
use moebius_ops::permute::capacity::Capacity;

/// The drop rule, planned for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityPlan {
    problem: Problem,
    /// Units along x share an expert; each position along y is an expert of its own.
    grid: Grid,
}

/// Plans the drop rule for slots sorted by `problem`.
///
/// # Errors
/// [`Unsupported`] when the experts exceed one grid.
pub fn plan(problem: Problem, device: &Capability) -> Result<CapacityPlan, Unsupported> {
    let most = device.limits.max_units_per_cube.max(1);
    let units = match device.cpu_cores {
        Some(cores) => [1, cores.clamp(1, most)],
        None => [most.min(SCAN_UNITS as u32), 1],
    };
    if device.cpu_cores.is_none() {
        let of_units = units[0] as usize;
        // All slots may have one expert.
        let walk = looped(problem.slots().div_ceil(of_units), 0);
        let count = walk + sum_rounds(of_units);
        let rounds = looped(31, count) + count + 2 * walk + looped(of_units, 0);
        fits_rounds("capacity", rounds, device)?;
    }
    // One more than the experts: the last marks the slots that had no expert before.
    let cubes = (problem.experts() + 1).div_ceil(units[1] as usize);
    Ok(CapacityPlan {
        problem,
        grid: Grid::of_cubes("capacity", cubes, units, device)?,
    })
}

/// The bits by which weights are ordered; a NaN of either sign is the largest.
#[cube]
fn magnitude(bits: u32) -> u32 {
    bits & 0x7FFF_FFFF
}

/// Units per group whose values one unit sums first, so that no unit reads the values of all others.
const GROUP: usize = 16;

/// The words of workgroup memory of [`sum_of_units`]: one per unit, and one per group of units.
const fn partial_len(units: usize) -> usize {
    units + units.div_ceil(GROUP)
}

/// Rounds of the loops of [`sum_of_units`].
const fn sum_rounds(units: usize) -> usize {
    looped(GROUP, 0) + looped(units.div_ceil(GROUP), 0)
}

/// The sum over the units along x, returned to all of them; `partial` holds [`partial_len`] words.
///
/// It may be called again immediately: after its second barrier nobody reads the values any more, and after the first barrier of
/// the next call nobody reads the sums of groups.
#[cube]
fn sum_of_units(partial: &mut Shared<[u32]>, value: u32, #[comptime] units: usize) -> u32 {
    if comptime!(units == 1) {
        value
    } else {
        let unit = UNIT_POS_X as usize;
        let groups = comptime!(units.div_ceil(GROUP));
        partial[unit] = value;
        sync_cube();
        if unit < groups {
            let first = unit * comptime!(GROUP);
            let mut sum = 0u32;
            for other in first..min(first + comptime!(GROUP), units) {
                sum += partial[other];
            }
            partial[units + unit] = sum;
        }
        sync_cube();
        let mut sum = 0u32;
        for group in 0..groups {
            sum += partial[units + group];
        }
        sum
    }
}

/// The number of slots in \[begin, end) whose weight bits are at least `bits`, counted by the units along x.
#[cube]
fn count_at_least(
    order: &[u32],
    weights: &[u32],
    partial: &mut Shared<[u32]>,
    begin: usize,
    end: usize,
    bits: u32,
    #[comptime] units: usize,
) -> u32 {
    let mut count = 0u32;
    for i in range_stepped(begin + UNIT_POS_X as usize, end, units) {
        count += select(magnitude(weights[order[i] as usize]) >= bits, 1u32, 0u32);
    }
    sum_of_units(partial, count, units)
}

/// Writes keys: the units of expert e write e for each of its kept slots and E for each dropped one; the units of E write the
/// keys of slots without an expert.
#[cube(launch_unchecked)]
fn drop_over_capacity(
    order: &[u32],
    offsets: &[u32],
    weights: &[u32],
    capacities: &[u32],
    keys: &mut [u32],
    experts: usize,
    slots: usize,
    #[comptime] units: usize,
    #[comptime] experts_per_cube: usize,
) {
    let expert = CUBE_POS * experts_per_cube + UNIT_POS_Y as usize;
    let mut first = slots;
    let mut past = slots;
    if expert <= experts {
        first = offsets[expert] as usize;
    }
    if expert < experts {
        past = offsets[expert + 1] as usize;
    }
    let capacity = capacities[min(expert, experts - 1)];
    let mut partial = Shared::<[u32]>::new_slice(comptime!(partial_len(units)));

    // The largest threshold that at least `capacity` weights reach; 0 if there are fewer weights.
    let mut threshold = 0u32;
    for step in 0..31u32 {
        let candidate = threshold | (1u32 << (30 - step));
        let count = count_at_least(order, weights, &mut partial, first, past, candidate, units);
        threshold = select(count >= capacity, candidate, threshold);
    }
    let next = threshold + 1;
    let heavier = count_at_least(order, weights, &mut partial, first, past, next, units);

    let unit = UNIT_POS_X as usize;
    let chunk = (past - first).div_ceil(units);
    let begin = min(first + unit * chunk, past);
    let end = min(begin + chunk, past);
    let mut rank = heavier;
    if comptime!(units > 1) {
        let mut equal = 0u32;
        for i in begin..end {
            let weight = magnitude(weights[order[i] as usize]);
            equal += select(weight == threshold, 1u32, 0u32);
        }
        partial[unit] = equal;
        sync_cube();
        for before in 0..unit {
            rank += partial[before];
        }
    }
    for i in begin..end {
        let slot = order[i] as usize;
        let weight = magnitude(weights[slot]);
        let tie = weight == threshold;
        let kept = weight > threshold || (tie && rank < capacity);
        rank += select(tie, 1u32, 0u32);
        keys[slot] = select(kept, expert, experts) as u32;
    }
}

buffers! {
    /// Buffers of the drop rule, u32 but for the weights.
    pub struct CapacityBuffers {
        pub order: Handle => "[S]" read: "slots sorted by expert",
        pub offsets: Handle => "[E+1]" read,
        pub weights: Handle => "[S] f32" read: "router weights, not negative",
        pub capacities: Handle => "[E]" read,
        pub keys: Handle => "[S]" written: "the expert of every slot, E for a dropped one",
    }
}

/// Enqueues the drop rule: one launch, or none for no slots.
pub fn launch(client: &Client, plan: &CapacityPlan, buffers: CapacityBuffers) {
    let (slots, experts) = (plan.problem.slots(), plan.problem.experts());
    if slots == 0 {
        return;
    }
    launched::note(|| "drop_over_capacity");
    let (count, dim) = (plan.grid.count(), plan.grid.dim());
    let [order, offsets, weights] = [buffers.order, buffers.offsets, buffers.weights].map(bind);
    let [capacities, keys] = [buffers.capacities, buffers.keys].map(bind);
    let [units, beside] = plan.grid.units.map(|units| units as usize);
    // SAFETY: the buffers are as long as they are described; segments lie within the slots, and are empty past the last expert.
    unsafe {
        drop_over_capacity::launch_unchecked(
            client, count, dim, order, offsets, weights, capacities, keys, experts, slots, units,
            beside,
        );
    }
}

/// [`moebius_ops::permute::capacities_reference`], planned for a device: one cube, about 10·E operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapacitiesPlan {
    problem: Problem,
    capacity: Capacity,
    units: usize,
}

/// Plans the capacities of the experts of `problem`.
///
/// # Errors
/// [`Unsupported`] when the capacities exceed one binding.
pub fn plan_capacities(
    problem: Problem,
    capacity: Capacity,
    device: &Capability,
) -> Result<CapacitiesPlan, Unsupported> {
    crate::fits_binding("capacity", problem.experts() * 4, device)?;
    let units = match device.cpu_cores {
        Some(_) => 1,
        None => SCAN_UNITS.min(device.limits.max_units_per_cube.max(1) as usize),
    };
    let rounds = 2 * (looped(problem.experts().div_ceil(units), 0) + sum_rounds(units));
    fits_rounds("capacity", rounds, device)?;
    Ok(CapacitiesPlan {
        problem,
        capacity,
        units,
    })
}

/// The numbers of the capacity rule that are equal for all experts.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Rule {
    slots: u32,
    /// The capacity by the factor of all experts.
    even: u32,
    least: u32,
}

/// The capacity of `expert` before the shares of masked experts are added.
#[cube]
fn own_capacity(factors: &ComptimeOption<&[f32]>, rule: &Rule, expert: usize, experts: u32) -> u32 {
    #[comptime]
    match factors {
        ComptimeOption::Some(factors) => {
            let all = f32::cast_from(rule.slots) * factors[expert];
            // More than any number of slots, and small enough that the division's rounding up can't overflow.
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

pub(super) fn capacities_name(masked: bool, factors: bool) -> String {
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
