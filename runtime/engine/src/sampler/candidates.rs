//! The tokens that may be drawn, and how much each weighs.
//!
//! Weights are whole numbers, so that sums are exact in any order and no selection is a sort: the most likely token weighs 2⁴⁰, and one
//! that is less than 2⁻⁴¹ times as likely weighs nothing.

use std::cmp::Ordering;

/// The weight of the most likely token.
const HEAVIEST: f64 = (1_u64 << 40) as f64;

/// The most ids of a vocabulary: their weights have a sum below 2⁶⁴.
pub(super) const MOST_IDS: usize = 1 << 23;

/// One more than the class of the heaviest, which has 41 bits.
const CLASSES: usize = 42 * 8;

#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) id: u32,
    score: f32,
    pub(super) weight: u64,
}

impl Candidate {
    /// The weight's number of bits, and the three that follow the first: no heavier candidate has a lower class.
    fn class(&self) -> usize {
        let bits = (u64::BITS - self.weight.leading_zeros()) as usize;
        let first_four = (self.weight << 3) >> bits.saturating_sub(1);
        bits * 8 + first_four as usize % 8
    }

    /// The more likely first, of equally likely ones that with the lower id: no two are equal.
    fn rank(&self, other: &Self) -> Ordering {
        descending(self.score, other.score).then(self.id.cmp(&other.id))
    }
}

/// In the order of their ids, always.
#[derive(Clone, Debug)]
pub(super) struct Candidates(Vec<Candidate>);

impl Candidates {
    /// The ids of `scores` above −∞, without those below the k-th highest score. `scores` has no NaN, and something above −∞.
    pub(super) fn new(scores: &[f32], temperature: f32, top_k: usize) -> Self {
        let least = kth_highest(scores, top_k);
        let highest = f64::from(scores.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let kept = (0..).zip(scores).filter(|(_, score)| {
            // `>=` alone would keep −∞ where fewer than k scores are above it.
            **score > f32::NEG_INFINITY && **score >= least
        });
        let weighed = kept.map(|(id, &score)| {
            let relative = ((f64::from(score) - highest) / f64::from(temperature)).exp();
            Candidate {
                id,
                score,
                weight: (relative * HEAVIEST).round() as u64,
            }
        });
        Self(weighed.collect())
    }

    /// Keeps the fewest most likely ones, at least one, that have a share of `top_p` of the weight.
    pub(super) fn keep_top_p(&mut self, top_p: f32) {
        let wanted = (f64::from(top_p) * self.weight() as f64).ceil() as u64;
        // Only the candidates that are about as likely as the last one are compared with each other.
        let mut sums = [0; CLASSES];
        for candidate in &self.0 {
            sums[candidate.class()] += candidate.weight;
        }
        let (mut class, mut kept) = (CLASSES - 1, 0);
        while class > 0 && (sums[class] == 0 || kept + sums[class] < wanted) {
            kept += sums[class];
            class -= 1;
        }
        let of_class = self.0.iter().filter(|candidate| candidate.class() == class);
        let last = last_kept(of_class.copied().collect(), wanted.saturating_sub(kept));
        self.0
            .retain(|candidate| match candidate.class().cmp(&class) {
                Ordering::Less => false,
                Ordering::Equal => {
                    last.is_some_and(|last| candidate.rank(&last) != Ordering::Greater)
                }
                Ordering::Greater => true,
            });
    }

    /// Keeps those that are at least `min_p` times as likely as the most likely one.
    pub(super) fn keep_min_p(&mut self, min_p: f32) {
        let least = f64::from(min_p) * HEAVIEST;
        self.0.retain(|candidate| candidate.weight as f64 >= least);
    }

    /// The sum of all weights.
    pub(super) fn weight(&self) -> u64 {
        self.0.iter().map(|candidate| candidate.weight).sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Candidate> {
        self.0.iter()
    }

    /// The one that a random word falls on.
    pub(super) fn draw(&self, word: u64) -> u32 {
        let mut place = ((u128::from(word) * u128::from(self.weight())) >> 64) as u64;
        for candidate in &self.0 {
            if place < candidate.weight {
                return candidate.id;
            }
            place -= candidate.weight;
        }
        unreachable!("a place below the sum of weights is within one of them")
    }
}

/// The last of the fewest most likely candidates, at least one, that have the `wanted` weight, or of all.
fn last_kept(mut ranked: Vec<Candidate>, wanted: u64) -> Option<Candidate> {
    // Those before `from` are kept, and weigh `kept`; the last to be kept is before `to`.
    let (mut from, mut to, mut kept) = (0, ranked.len(), 0);
    while to - from > 1 {
        let half = (to - from) / 2;
        let part = &mut ranked[from..to];
        part.select_nth_unstable_by(half, Candidate::rank);
        let weight: u64 = part[..half].iter().map(|candidate| candidate.weight).sum();
        if kept + weight >= wanted {
            to = from + half;
        } else {
            kept += weight;
            from += half;
        }
    }
    ranked.get(from).copied()
}

/// The k-th highest of the scores, or −∞ where there aren't as many, or k is 0.
pub(super) fn kth_highest(scores: &[f32], k: usize) -> f32 {
    if k == 0 || k >= scores.len() {
        return f32::NEG_INFINITY;
    }
    let mut scores = scores.to_vec();
    let (_, kth, _) = scores.select_nth_unstable_by(k - 1, |a, b| descending(*a, *b));
    *kth
}

/// The higher first. Not by the order of bits, to which 0 and −0 are two numbers.
pub(super) fn descending(one: f32, other: f32) -> Ordering {
    let order = other.partial_cmp(&one);
    order.unwrap_or_else(|| unreachable!("logits were checked for NaN"))
}
