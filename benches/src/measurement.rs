//! What a report says of one result.

use crate::place::{Checked, Ran};
use crate::timing::{Speed, Timing};
use crate::{Ceilings, Reached};
use serde::Serialize;

/// A result: where it was measured, whether it verifies, how fast it is, and what that is compared with.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// Where.
    #[serde(flatten)]
    pub ran: Ran,
    /// Whether it verifies.
    #[serde(flatten)]
    pub checked: Checked,
    /// Milliseconds of the first run, kernel compilation included.
    pub first_ms: f64,
    /// How fast it is.
    #[serde(flatten)]
    pub speed: Speed,
    /// What the device reached in the same run.
    #[serde(flatten)]
    pub ceilings: Ceilings,
    /// How near it is to that.
    #[serde(flatten)]
    pub reached: Reached,
    /// Bytes that have to be read or written at least.
    pub floor_bytes: u64,
}

impl Measurement {
    /// Of runs that take `time`, for `flops` and `floor_bytes` each.
    pub(crate) fn new(
        ran: Ran,
        checked: Checked,
        (first_ms, time): (f64, Timing),
        ceilings: Ceilings,
        [flops, floor_bytes]: [u64; 2],
    ) -> Self {
        Self {
            ran,
            checked,
            first_ms,
            speed: time.speed(flops),
            reached: ceilings.reached(time, [flops, floor_bytes]),
            ceilings,
            floor_bytes,
        }
    }
}
