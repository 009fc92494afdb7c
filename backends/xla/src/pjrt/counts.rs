//! How many programs a process got, and how.

use std::sync::atomic::{AtomicU64, Ordering};

static COMPILED: AtomicU64 = AtomicU64::new(0);
static LOADED: AtomicU64 = AtomicU64::new(0);

/// Programs that this process got from plugins since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramCounts {
    /// Compiled, for devices of this machine or for a topology.
    pub compiled: u64,
    /// Loaded from bytes, such as those of a [`super::DiskCache`].
    pub loaded: u64,
}

/// Programs that this process got from plugins so far, those of all devices and threads.
pub fn program_counts() -> ProgramCounts {
    ProgramCounts {
        compiled: COMPILED.load(Ordering::Relaxed),
        loaded: LOADED.load(Ordering::Relaxed),
    }
}

pub(super) fn compiled() {
    COMPILED.fetch_add(1, Ordering::Relaxed);
}

pub(super) fn loaded() {
    LOADED.fetch_add(1, Ordering::Relaxed);
}
