//! The sort of a layer's slots, after its capacity has dropped some.

use crate::error::ShapeError;
use crate::permute::Capacity;
use crate::routing;

/// The sort of `slots` slots into `experts` segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Problem {
    slots: usize,
    experts: usize,
    capacity: Option<Capacity>,
    factors: bool,
}

impl Problem {
    /// Sorts the slots of a choice, at most `capacity` to an expert.
    ///
    /// `factors` says that every expert has a capacity factor of its own, known on the device.
    ///
    /// # Errors
    /// [`ShapeError`] for factors without a capacity, or one that isn't finite and positive.
    pub fn new(
        routing: &routing::Problem,
        capacity: Option<Capacity>,
        factors: bool,
    ) -> Result<Self, ShapeError> {
        if let Some(capacity) = capacity {
            Capacity::new(capacity.factor, capacity.min)?;
        } else if factors {
            let expected = "a capacity whose factor they replace";
            return Err(ShapeError::new("capacity factors", expected, "no capacity"));
        }
        Ok(Self {
            slots: routing.slots(),
            experts: routing.experts(),
            capacity,
            factors,
        })
    }

    /// Slots S.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Experts E.
    pub fn experts(&self) -> usize {
        self.experts
    }

    /// The rule that drops slots.
    pub fn capacity(&self) -> Option<&Capacity> {
        self.capacity.as_ref()
    }

    /// The most slots that can reach an expert R: all of them unless a capacity is known here.
    pub fn row_bound(&self) -> usize {
        match self.capacity {
            Some(capacity) if !self.factors => {
                let each = capacity.slots_per_expert(self.slots, self.experts);
                each.saturating_mul(self.experts).min(self.slots)
            }
            _ => self.slots,
        }
    }

    /// Launches of one sort.
    pub fn launches(&self) -> usize {
        if self.capacity.is_some() { 8 } else { 3 }
    }
}
