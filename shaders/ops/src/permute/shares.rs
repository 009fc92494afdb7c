//! How many slots every expert takes: capacities u32 \[E\].
//!
//! C_e = max(⌈S·f_e / E⌉, min), at most S. Without factors f32 \[E\] of their own all experts have
//! that of the [`Capacity`], and the host computes the one C exactly. With them S·f_e is rounded
//! to f32 once and divided in integers, so every device gets the same; they must be finite and not
//! negative, or C_e is somewhere between min and S. With a mask u32 \[E\] (non-zero = available)
//! the others take nothing, and Σ C_e over them, divided by the number of available experts and
//! rounded down, is added to each of those.

use super::Capacity;

/// The oracle of the capacities of `experts` experts.
pub fn capacities_reference(
    capacity: &Capacity,
    slots: usize,
    experts: usize,
    mask: Option<&[bool]>,
    factors: Option<&[f32]>,
) -> Vec<u32> {
    let own = |expert: usize| match factors {
        // In f32, as the contract says.
        Some(factors) => {
            let all = (slots as f32 * factors[expert]).ceil() as usize;
            all.div_ceil(experts).max(capacity.min).min(slots)
        }
        None => capacity.slots_per_expert(slots, experts),
    };
    let takes = |expert: &usize| mask.is_none_or(|mask| mask[*expert]);
    let lost: usize = (0..experts).filter(|e| !takes(e)).map(own).sum();
    let takers = (0..experts).filter(takes).count();
    let share = lost / takers.max(1);
    let shared = |expert: usize| {
        if takes(&expert) {
            own(expert) + share
        } else {
            0
        }
    };
    (0..experts).map(|expert| shared(expert) as u32).collect()
}

#[cfg(test)]
#[path = "shares_tests.rs"]
mod tests;
