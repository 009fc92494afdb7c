//! Memory that calls reuse: new memory costs a page fault for each page, which takes longer than writing it.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most values that all spare memory may hold: 128 MiB.
const MOST: usize = 32 << 20;

/// The spare memory, sorted by length.
static SPARES: Mutex<Vec<Vec<f32>>> = Mutex::new(Vec::new());

/// Memory for `len` values, which are arbitrary at first.
pub(crate) struct Spare {
    values: Vec<f32>,
    len: usize,
}

impl Spare {
    /// Returns memory for `len` values, from an earlier call if there is enough.
    pub(crate) fn new(len: usize) -> Self {
        let mut spares = spares();
        let fitting = spares.partition_point(|spare| spare.len() < len);
        let values = if fitting < spares.len() {
            spares.remove(fitting)
        } else {
            // New memory replaces a spare that is too small, so that there are never more than were in use at the same time.
            spares.pop();
            vec![0.0; len]
        };
        Self { values, len }
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        let mut spares = spares();
        let at = spares.partition_point(|spare| spare.len() < self.values.len());
        spares.insert(at, std::mem::take(&mut self.values));
        let mut kept: usize = spares.iter().map(Vec::len).sum();
        // The smallest are freed: if the largest stays, the next call of its kind needs no new memory.
        while kept > MOST && !spares.is_empty() {
            kept -= spares.remove(0).len();
        }
    }
}

impl Deref for Spare {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.values[..self.len]
    }
}

impl DerefMut for Spare {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values[..self.len]
    }
}

fn spares() -> MutexGuard<'static, Vec<Vec<f32>>> {
    SPARES.lock().unwrap_or_else(PoisonError::into_inner)
}
