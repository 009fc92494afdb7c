//! A routing on the host: slots sorted by expert, some of them nowhere.

use crate::plugin::Host;
use moebius_ops::permute;

/// A stable sort of slots by expert.
pub(crate) struct Sorted {
    pub(crate) experts: usize,
    pub(crate) top_k: usize,
    pub(crate) words: permute::Sorted,
}

impl Sorted {
    /// Of the experts of all slots; `experts` stands for none.
    pub(crate) fn new(keys: &[usize], experts: usize, top_k: usize) -> Self {
        let keys: Vec<u32> = keys.iter().map(|key| *key as u32).collect();
        Self {
            experts,
            top_k,
            words: permute::reference(&keys, experts),
        }
    }

    /// `tokens` tokens that choose `top_k` experts each; some slots are dropped, expert 1 has no rows.
    pub(crate) fn sample(tokens: usize, experts: usize, top_k: usize) -> Self {
        let key = |slot: usize| match ((slot * 2654435761) >> 7) % (experts + 2) {
            1 => 0,
            key => key.min(experts),
        };
        let keys: Vec<usize> = (0..tokens * top_k).map(key).collect();
        Self::new(&keys, experts, top_k)
    }

    pub(crate) fn slots(&self) -> usize {
        self.words.order.len()
    }

    /// Rows that have an expert.
    pub(crate) fn rows(&self) -> usize {
        self.words.offsets[self.experts] as usize
    }

    pub(crate) fn token(&self, row: usize) -> usize {
        self.words.order[row] as usize / self.top_k
    }

    pub(crate) fn expert(&self, row: usize) -> Option<usize> {
        let mut experts = 0..self.experts;
        experts
            .find(|e| (self.words.offsets[*e]..self.words.offsets[e + 1]).contains(&(row as u32)))
    }

    pub(crate) fn order(&self) -> Host {
        Host::ints(&[self.slots()], &self.words.order)
    }

    pub(crate) fn offsets(&self) -> Host {
        Host::ints(&[self.experts + 1], &self.words.offsets)
    }
}

/// Values between −2 and 2 without a pattern that a wrong index would keep.
pub(crate) fn wave(len: usize, phase: f64) -> Vec<f32> {
    let value = |i: usize| (2.0 * (1.37 * i as f64 + phase).sin()) as f32;
    (0..len).map(value).collect()
}

/// As f64s.
pub(crate) fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

/// `rows` rows of x, of which those from `from` on are NaN.
pub(crate) fn poisoned(mut x: Vec<f32>, width: usize, from: usize) -> Vec<f32> {
    x[from * width..].fill(f32::NAN);
    x
}

pub(crate) fn assert_close(got: &[f32], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let difference = (f64::from(*got) - want).abs();
        let allowed = tolerance * want.abs().max(1.0);
        assert!(difference <= allowed, "{what}, {i}: {got}, {want}");
    }
}
