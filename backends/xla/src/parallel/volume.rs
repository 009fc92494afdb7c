//! How many bytes expert parallelism sends, and how many of them are padding.
//!
//! With w the bytes of an element, and each device's own part left out:
//!
//! | what | bytes that leave a device |
//! |---|---|
//! | counts, once | (P − 1) · E/P · 4 |
//! | the largest count, once, where the rounds aren't 1 | ⌈2·(P − 1)/P · 4⌉ |
//! | forward, a round | (P − 1) · C · 2·H·w |
//! | backward, a round | (P − 1) · C · (2·H·w + 8), and H·w more where x is sent again |
//! | the router's gradient, once | ⌈2·(P − 1)/P · E·H·4⌉ |
//!
//! Of `rounds` · (P − 1) · C rows that leave a device, those that hold no slot are padding.

use super::Divided;
use super::passes::Passes;

/// What each device sends to others in one execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Bytes sent once, whatever the routing is.
    pub once: u64,
    /// Bytes of a row: there and back, in all passes.
    pub row: u64,
    /// Rows that leave the device in a round.
    pub rows: u64,
}

impl Volume {
    pub(super) fn forward(of: &Divided) -> Self {
        let [devices, experts] = [of.devices, of.layer.experts].map(|n| n as u64);
        let mut once = (devices - 1) * (experts / devices) * COUNT;
        if of.most_rounds() > 1 {
            once += reduced(devices, COUNT);
        }
        Self {
            once,
            row: 2 * row(of),
            rows: (devices - 1) * of.rows as u64,
        }
    }

    pub(super) fn gradients(of: &Divided) -> Self {
        let forward = Self::forward(of);
        let local = of.local();
        let router = (local.experts * local.hidden) as u64 * FLOAT;
        let again = if of.most_rounds() > 1 { row(of) } else { 0 };
        Self {
            once: forward.once + reduced(of.devices as u64, router),
            row: forward.row + 2 * row(of) + 2 * FLOAT + again,
            ..forward
        }
    }

    /// Bytes that leave the device in so many rounds.
    pub fn exchanged(&self, rounds: u64) -> u64 {
        self.once + rounds * self.rows * self.row
    }

    /// Bytes of these that hold no slot, where `sent` rows were for other devices.
    pub fn padding(&self, rounds: u64, sent: u64) -> u64 {
        (rounds * self.rows).saturating_sub(sent) * self.row
    }
}

/// Bytes of a count.
const COUNT: u64 = 4;
/// Bytes of an f32.
const FLOAT: u64 = 4;

/// Bytes of a token.
fn row(of: &Divided) -> u64 {
    (of.layer.hidden * of.layer.element.bytes()) as u64
}

/// Bytes that leave a device when `bytes` are summed.
fn reduced(devices: u64, bytes: u64) -> u64 {
    (2 * (devices - 1) * bytes).div_ceil(devices)
}
