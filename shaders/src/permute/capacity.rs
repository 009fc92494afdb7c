//! The capacity rule: an expert keeps its `capacity` heaviest slots, ties to the earlier slot.
//!
//! C = max(⌈T·K·factor / E⌉, min). Who is dropped depends on the router weights and the slot
//! order alone, never on chance; a NaN weight counts as the heaviest. One cube per expert finds the C-th largest weight by bisection
//! over the 31 bits of a non-negative f32 (whose bits order like its value), then keeps the
//! heavier slots and the first of the equal ones. Reads: 32 × its slots, from cache.

use super::Problem;
use crate::error::{ShapeError, Unsupported};
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::Capability;
use serde::{Deserialize, Serialize};

/// How many slots an expert takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// Capacity relative to a perfectly even load.
    pub factor: f64,
    /// Least capacity of an expert.
    pub min: usize,
}

impl Capacity {
    /// A capacity of `factor` times the even load, at least `min`.
    ///
    /// # Errors
    /// [`ShapeError`] unless `factor` is finite and positive.
    pub fn new(factor: f64, min: usize) -> Result<Self, ShapeError> {
        if !(factor.is_finite() && factor > 0.0) {
            return Err(ShapeError::new(
                "capacity factor",
                "a finite number above 0",
                factor,
            ));
        }
        Ok(Self { factor, min })
    }

    /// Slots each of `experts` takes when there are `slots`.
    pub fn slots_per_expert(&self, slots: usize, experts: usize) -> usize {
        let even = (slots as f64 * self.factor / experts as f64).ceil();
        // A float to integer cast saturates, and more than all slots is no limit.
        (even as usize).max(self.min).min(slots)
    }
}

/// A capacity this device can enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityPlan {
    problem: Problem,
    capacity: usize,
    units: usize,
}

/// Plans the drop rule for slots sorted by `problem`.
///
/// # Errors
/// [`Unsupported`] when the experts exceed one grid.
pub fn plan(
    problem: Problem,
    capacity: Capacity,
    device: &Capability,
) -> Result<CapacityPlan, Unsupported> {
    let most = device.limits.max_cube_count[0] as usize;
    if problem.experts() >= most {
        let needs = format!("{} cubes", problem.experts() + 1);
        return Err(Unsupported::new(
            "capacity",
            needs,
            format!("at most {most}"),
        ));
    }
    Ok(CapacityPlan {
        problem,
        capacity: capacity.slots_per_expert(problem.slots(), problem.experts()),
        units: match device.cpu_cores {
            Some(_) => 1,
            None => super::SCAN_UNITS.min(device.limits.max_units_per_cube as usize),
        },
    })
}

/// The bits that order a weight; a NaN of either sign is the heaviest.
#[cube]
fn magnitude(bits: u32) -> u32 {
    bits & 0x7FFF_FFFF
}

/// Sum over the cube of every unit's `value`; two barriers, so the memory can be used again.
#[cube]
fn cube_sum(partial: &mut Shared<[u32]>, value: u32, #[comptime] units: usize) -> u32 {
    partial[UNIT_POS as usize] = value;
    sync_cube();
    let mut sum = 0u32;
    for unit in 0..units {
        sum += partial[unit];
    }
    sync_cube();
    sum
}

/// Slots of \[first, last) whose weight bits are at least `bits`, counted by the whole cube.
#[cube]
fn count_at_least(
    order: &[u32],
    weights: &[u32],
    partial: &mut Shared<[u32]>,
    segment: (usize, usize),
    bits: u32,
    #[comptime] units: usize,
) -> u32 {
    let mut count = 0u32;
    for i in range_stepped(segment.0 + UNIT_POS as usize, segment.1, units) {
        count += select(magnitude(weights[order[i] as usize]) >= bits, 1u32, 0u32);
    }
    cube_sum(partial, count, units)
}

/// Cube e writes the keys of expert e's slots: e if kept, E if dropped; cube E those without one.
#[cube(launch_unchecked)]
fn drop_over_capacity(
    order: &[u32],
    offsets: &[u32],
    weights: &[u32],
    keys: &mut [u32],
    experts: usize,
    slots: usize,
    capacity: u32,
    #[comptime] units: usize,
) {
    let expert = CUBE_POS_X as usize;
    let first = offsets[expert] as usize;
    let last = select(
        expert < experts,
        offsets[min(expert + 1, experts)] as usize,
        slots,
    );
    let segment = (first, last);
    let mut partial = Shared::<[u32]>::new_slice(units);

    // The largest threshold that `capacity` weights reach; 0 when there are fewer.
    let mut threshold = 0u32;
    for step in 0..31u32 {
        let candidate = threshold | (1u32 << (30 - step));
        let count = count_at_least(order, weights, &mut partial, segment, candidate, units);
        threshold = select(count >= capacity, candidate, threshold);
    }
    let heavier = count_at_least(order, weights, &mut partial, segment, threshold + 1, units);

    let unit = UNIT_POS as usize;
    let chunk = (last - first).div_ceil(units);
    let begin = min(first + unit * chunk, last);
    let end = min(begin + chunk, last);
    let mut equal = 0u32;
    for i in begin..end {
        equal += select(
            magnitude(weights[order[i] as usize]) == threshold,
            1u32,
            0u32,
        );
    }
    partial[unit] = equal;
    sync_cube();
    let mut rank = heavier;
    for before in 0..unit {
        rank += partial[before];
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

/// Buffers of the drop rule, u32 but for the weights.
#[derive(Clone)]
pub struct CapacityBuffers {
    /// \[S\], read: slots sorted by expert.
    pub order: Handle,
    /// \[E+1\], read.
    pub offsets: Handle,
    /// \[S\] f32, read: router weights, not negative.
    pub weights: Handle,
    /// \[S\], written: the expert of every slot, E for a dropped one.
    pub keys: Handle,
}

/// Enqueues the drop rule: one launch.
pub fn launch(client: &Client, plan: &CapacityPlan, buffers: CapacityBuffers) {
    let (slots, experts) = (plan.problem.slots(), plan.problem.experts());
    // SAFETY: the caller's buffers have the planned lengths; segments lie within the slots.
    unsafe {
        drop_over_capacity::launch_unchecked(
            client,
            CubeCount::Static(experts as u32 + 1, 1, 1),
            CubeDim::new_1d(plan.units as u32),
            BufferArg::from_raw_parts(buffers.order, slots),
            BufferArg::from_raw_parts(buffers.offsets, experts + 1),
            BufferArg::from_raw_parts(buffers.weights, slots),
            BufferArg::from_raw_parts(buffers.keys, slots),
            experts,
            slots,
            plan.capacity as u32,
            plan.units,
        );
    }
}

/// The oracle: the keys after dropping, for router weights \[S\].
pub fn reference(indices: &[u32], weights: &[f32], experts: usize, capacity: usize) -> Vec<u32> {
    let mut keys = indices.to_vec();
    for expert in 0..experts as u32 {
        let mut slots: Vec<usize> = (0..indices.len())
            .filter(|s| indices[*s] == expert)
            .collect();
        slots.sort_by_key(|slot| {
            (
                std::cmp::Reverse(weights[*slot].to_bits() & 0x7FFF_FFFF),
                *slot,
            )
        });
        for slot in slots.into_iter().skip(capacity) {
            keys[slot] = experts as u32;
        }
    }
    keys
}

/// STUB
pub fn capacities_reference(
    rule: &Capacity,
    slots: usize,
    experts: usize,
    mask: Option<&[bool]>,
    factors: Option<&[f32]>,
) -> Vec<usize> {
    let each: Vec<usize> = (0..experts)
        .map(|e| match factors {
            None => rule.slots_per_expert(slots, experts),
            Some(f) => (((slots as f32 * f[e] / experts as f32).ceil()) as usize)
                .max(rule.min)
                .min(slots),
        })
        .collect();
    let Some(mask) = mask else { return each };
    let lost: usize = (0..experts).filter(|e| !mask[*e]).map(|e| each[e]).sum();
    let left = mask.iter().filter(|m| **m).count();
    (0..experts)
        .map(|e| if mask[e] { each[e] + lost / left } else { 0 })
        .collect()
}
/// STUB
pub fn reference_each(indices: &[u32], weights: &[f32], capacities: &[usize]) -> Vec<u32> {
    let mut keys = indices.to_vec();
    for (e, capacity) in capacities.iter().enumerate() {
        let one = reference(indices, weights, capacities.len(), *capacity);
        for s in 0..keys.len() {
            if indices[s] as usize == e {
                keys[s] = one[s];
            }
        }
    }
    keys
}

/// The drop rule.
#[cfg(feature = "emit")]
pub(super) fn entry() -> crate::emit::KernelEntry {
    use crate::emit::{KernelEntry, Machine, Planned, buffer};
    let build = |at: &Machine| -> Planned {
        let capacity = Capacity::new(1.25, 4)?;
        let units = plan(Problem::new(2048, 8, 64)?, capacity, &at.capability)?.units;
        let (settings, device, target) = at.parts(CubeDim::new_1d(units as u32));
        Ok(Box::new(drop_over_capacity::DropOverCapacity::new(
            settings,
            device,
            target,
            buffer(),
            buffer(),
            buffer(),
            buffer(),
            (),
            (),
            (),
            units,
        )))
    };
    KernelEntry::new(
        ("permute", "capacity"),
        "drop_over_capacity".to_owned(),
        build,
    )
}
