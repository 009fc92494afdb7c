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
mod tests {
    use super::{Capacity, capacities_reference};

    #[test]
    fn masked_experts_leave_their_capacity_to_the_others() {
        // ⌈100 · 1.25 / 8⌉ = 16; two masked leave 32 to six: 5 each, and 2 to nobody.
        let capacity = Capacity::new(1.25, 4).unwrap();
        let all = capacities_reference(&capacity, 100, 8, None, None);
        assert_eq!(all, [16; 8]);
        let mask = [true, false, true, true, true, true, false, true];
        let some = capacities_reference(&capacity, 100, 8, Some(&mask), None);
        assert_eq!(some, [21, 0, 21, 21, 21, 21, 0, 21]);
        let none = capacities_reference(&capacity, 100, 8, Some(&[false; 8]), None);
        assert_eq!(none, [0; 8]);
    }

    #[test]
    fn every_expert_can_have_a_factor() {
        let capacity = Capacity::new(1.0, 3).unwrap();
        let factors = [0.0, 0.5, 1.1, 100.0];
        // 0 is raised to the least, 1000 · 1.1 / 4 = 275, and S is no limit.
        let own = capacities_reference(&capacity, 1000, 4, None, Some(&factors));
        assert_eq!(own, [3, 125, 275, 1000]);
        let mask = [true, true, true, false];
        let some = capacities_reference(&capacity, 1000, 4, Some(&mask), Some(&factors));
        assert_eq!(some, [336, 458, 608, 0]);
    }
}
