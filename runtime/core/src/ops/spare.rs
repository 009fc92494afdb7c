//! Memory that calls on Flex hand on to later ones: new memory costs a fault for each of its pages, which takes longer than writing it.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Values that are kept at most, of all pieces together: 128 MiB.
const MOST: usize = 32 << 20;

static SPARES: Mutex<Vec<Vec<f32>>> = Mutex::new(Vec::new());

/// Memory for so many values, which mean nothing at first.
pub(super) struct Spare {
    values: Vec<f32>,
    len: usize,
}

impl Spare {
    pub(super) fn new(len: usize) -> Self {
        let mut spares = spares();
        // The smallest that is large enough; none is made larger, which would copy what means nothing.
        let fitting = |(_, spare): &(usize, &Vec<f32>)| spare.len() >= len;
        let fitting = spares.iter().enumerate().filter(fitting);
        let best = fitting.min_by_key(|(_, spare)| spare.len());
        let values = match best.map(|(at, _)| at) {
            Some(at) => spares.swap_remove(at),
            None => vec![0.0; len],
        };
        Self { values, len }
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        let mut spares = spares();
        spares.push(std::mem::take(&mut self.values));
        spares.sort_unstable_by_key(Vec::len);
        let mut kept: usize = spares.iter().map(Vec::len).sum();
        // The smallest go: with the largest, the next call of its kind needs no new memory.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_and_no_more_is_kept_than_the_bound() {
        let sizes = [MOST / 2, 1000, MOST / 2 - 100];
        for _ in 0..2 {
            let all = sizes.map(Spare::new);
            assert!(all.iter().zip(sizes).all(|(spare, len)| spare.len() == len));
            drop(all);
            assert!(spares().iter().map(Vec::len).sum::<usize>() <= MOST);
        }
        drop(Spare::new(MOST + 1));
        assert!(spares().iter().map(Vec::len).sum::<usize>() <= MOST);
    }
}
