//! The capacity rule: expert e keeps its C_e slots of largest weight; of equal weights, the earlier slot.
//!
//! Capacities u32 \[E\] come from [`capacities_reference`] or from the caller. The rule depends only on the router weights and
//! the slot order, never on chance; a NaN weight counts as the largest.

use crate::error::{Fault, Mismatch};
use serde::{Deserialize, Serialize};

/// A limit on the slots per expert.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// Capacity relative to a perfectly even load.
    pub factor: f64,
    /// The smallest capacity of an expert.
    pub min: usize,
}

impl Capacity {
    /// A capacity of `factor` times the even load, at least `min`.
    ///
    /// # Errors
    /// [`Mismatch`] unless `factor` is finite and positive.
    pub fn new(factor: f64, min: usize) -> Result<Self, Mismatch> {
        let right = factor.is_finite() && factor > 0.0;
        let expected = "a finite number above 0";
        Fault::Config.unless(right, "capacity factor", expected, factor)?;
        Ok(Self { factor, min })
    }

    /// The number of slots that each of `experts` experts takes out of `slots`.
    pub fn slots_per_expert(&self, slots: usize, experts: usize) -> usize {
        let even = (slots as f64 * self.factor / experts as f64).ceil();
        // The cast from float saturates, and a limit above all slots is no limit.
        (even as usize).max(self.min).min(slots)
    }
}

/// Serialises a capacity with the bits of its factor, because text parsers may round the last bit, and one slot more or less
/// would change the operation.
pub(crate) mod exact {
    use super::Capacity;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        capacity: &Option<Capacity>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let bits = capacity.map(|capacity| (capacity.factor.to_bits(), capacity.min));
        bits.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Capacity>, D::Error> {
        let bits = Option::<(u64, usize)>::deserialize(deserializer)?;
        let capacity = |(factor, min)| Capacity {
            factor: f64::from_bits(factor),
            min,
        };
        Ok(bits.map(capacity))
    }
}

/// The oracle of dropping: the keys with E in place of dropped slots, for router weights \[S\] and capacities \[E\].
pub fn reference(indices: &[u32], weights: &[f32], capacities: &[u32]) -> Vec<u32> {
    let mut keys = indices.to_vec();
    for (expert, capacity) in capacities.iter().enumerate() {
        let mut slots: Vec<usize> = (0..indices.len())
            .filter(|s| indices[*s] == expert as u32)
            .collect();
        let weight = |slot: usize| weights[slot].to_bits() & 0x7FFF_FFFF;
        slots.sort_by_key(|slot| (std::cmp::Reverse(weight(*slot)), *slot));
        for slot in slots.into_iter().skip(*capacity as usize) {
            keys[slot] = capacities.len() as u32;
        }
    }
    keys
}

/// The oracle of the capacities u32 \[E\] of `experts` experts.
///
/// C_e = max(⌈S·f_e / E⌉, min), at most S. Without `factors` f32 \[E\], every f_e is the factor of the [`Capacity`], and the host
/// computes C exactly. With `factors`, S·f_e is rounded to f32 once and divided in integers, so every device gets the same
/// result; factors must be finite and not negative, otherwise C_e is some number between min and S. With a mask u32 \[E\]
/// (non-zero = available), a masked expert takes nothing; the sum of the masked experts' C_e, divided by the number of available
/// experts and rounded down, is added to each available expert's C_e.
pub fn capacities_reference(
    capacity: &Capacity,
    slots: usize,
    experts: usize,
    mask: Option<&[bool]>,
    factors: Option<&[f32]>,
) -> Vec<u32> {
    let own = |expert: usize| match factors {
        // Rounded to f32, as the contract says.
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
    use super::reference;

    #[test]
    fn the_lightest_slots_are_dropped_and_ties_by_position() {
        let keys = [0, 0, 0, 1, 1, 1, 2];
        let weights = [0.1, 0.3, 0.2, 0.5, 0.5, 0.5, 0.9];
        let kept = reference(&keys, &weights, &[2, 1, 0]);
        assert_eq!(kept, [3, 0, 0, 1, 3, 3, 3]);
    }
}

#[cfg(test)]
#[path = "shares_tests.rs"]
mod shares_tests;
