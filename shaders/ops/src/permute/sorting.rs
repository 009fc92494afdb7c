//! The sort of a layer's slots, after its capacity has dropped some.

use crate::error::{Fault, Mismatch};
use crate::permute::Capacity;
use crate::routing;
use serde::{Deserialize, Serialize};

/// The sort of the slots of a choice by expert.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    routing: routing::Problem,
    #[serde(with = "crate::permute::capacity::exact")]
    capacity: Option<Capacity>,
    factors: bool,
}

impl Problem {
    /// Sorts the slots of a choice, at most `capacity` to an expert.
    ///
    /// `factors` says that every expert has a capacity factor of its own, known on the device.
    ///
    /// # Errors
    /// [`Mismatch`] for factors without a capacity, or one that isn't finite and positive.
    pub fn new(
        routing: &routing::Problem,
        capacity: Option<Capacity>,
        factors: bool,
    ) -> Result<Self, Mismatch> {
        if let Some(capacity) = capacity {
            Capacity::new(capacity.factor, capacity.min)?;
        } else if factors {
            let expected = "a capacity whose factor they replace";
            return Err(Fault::Config.error("capacity factors", expected, "no capacity"));
        }
        Ok(Self {
            routing: *routing,
            capacity,
            factors,
        })
    }

    /// Checks what the constructor does, of a problem that was read.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        self.routing.check()?;
        Self::new(&self.routing, self.capacity, self.factors).map(drop)
    }

    /// Slots S.
    pub fn slots(&self) -> usize {
        self.routing.slots()
    }

    /// Experts E.
    pub fn experts(&self) -> usize {
        self.routing.experts()
    }

    /// The most slots that can reach an expert R: all of them unless a capacity is known here.
    pub fn row_bound(&self) -> usize {
        match self.capacity {
            Some(capacity) if !self.factors => {
                let (slots, experts) = (self.slots(), self.experts());
                let each = capacity.slots_per_expert(slots, experts);
                each.saturating_mul(experts).min(slots)
            }
            _ => self.slots(),
        }
    }

    /// Launches of one sort.
    pub fn launches(&self) -> usize {
        if self.capacity.is_some() { 8 } else { 3 }
    }
}

getters! { Problem:
    /// Tokens, experts and choices per token.
    routing: routing::Problem,
    /// The rule that drops slots.
    capacity: Option<Capacity>,
    /// Whether every expert has a capacity factor of its own, on the device.
    factors: bool,
}
