//! The sort of a layer's slots by expert, after its capacity has dropped some.

use crate::error::{Fault, Mismatch};
use crate::permute::Capacity;
use crate::routing;
use serde::{Deserialize, Serialize};

/// The sort of a routing's slots by expert.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    routing: routing::Problem,
    #[serde(with = "crate::permute::capacity::exact")]
    capacity: Option<Capacity>,
    factors: bool,
}

impl Problem {
    /// A sort of the slots of `routing`, at most `capacity` per expert.
    ///
    /// `factors` says that each expert has its own capacity factor, known only on the device.
    ///
    /// # Errors
    /// [`Mismatch`] for factors without a capacity, or a capacity whose factor isn't finite and positive.
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

    /// Repeats the constructor's checks for a deserialised problem.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        self.routing.check()?;
        Self::new(&self.routing, self.capacity, self.factors).map(drop)
    }

    /// The number of slots S.
    pub fn slots(&self) -> usize {
        self.routing.slots()
    }

    /// The number of experts E.
    pub fn experts(&self) -> usize {
        self.routing.experts()
    }

    /// The largest number R of slots that can reach an expert: S unless the host knows the capacities.
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

    /// The number of launches of the sort.
    pub fn launches(&self) -> usize {
        if self.capacity.is_some() { 8 } else { 3 }
    }
}

getters! { Problem:
    /// Tokens, experts and choices per token.
    routing: routing::Problem,
    /// The rule that drops slots.
    capacity: Option<Capacity>,
    /// Whether each expert has its own capacity factor on the device.
    factors: bool,
}
