//! The tokens that may be drawn and how much each weighs, the random words that draw them, and how likely a model holds tokens.
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

/// Log-probabilities by the model's logits as they are, before biases, penalties and temperature.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprobs {
    /// That of the token that was chosen.
    pub chosen: f32,
    /// The most likely ids with theirs, the most likely first and of equally likely ones that with the lower id; none that is
    /// impossible.
    pub top: Vec<(u32, f32)>,
}

impl Logprobs {
    /// Of `chosen` and the `most` most likely ids. `logits` has neither NaN nor +∞, and something above −∞.
    pub(super) fn new(logits: &[f32], chosen: u32, most: usize) -> Self {
        let highest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let sum: f64 = logits
            .iter()
            .map(|&logit| (f64::from(logit) - highest).exp())
            .sum();
        let logprob = |id: u32| (f64::from(logits[id as usize]) - highest - sum.ln()) as f32;
        let top = most_likely(logits, most);
        Self {
            chosen: logprob(chosen),
            top: top.into_iter().map(|id| (id, logprob(id))).collect(),
        }
    }
}

fn most_likely(logits: &[f32], most: usize) -> Vec<u32> {
    if most == 0 {
        return Vec::new();
    }
    let least = kth_highest(logits, most);
    let possible = (0_u32..)
        .zip(logits)
        .filter(|(_, logit)| **logit > f32::NEG_INFINITY && **logit >= least);
    let mut ids: Vec<u32> = possible.map(|(id, _)| id).collect();
    // Stable, so of equal ones that with the lower id stays before the other.
    ids.sort_by(|one, other| descending(logits[*one as usize], logits[*other as usize]));
    ids.truncate(most);
    ids
}

const ROUNDS: usize = 10;
/// The multipliers, and what is added to the key after each round.
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Four random words, a function of `counter` and `key` and of nothing else: so any of them can be had at any time, in any order.
pub fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let ([mut a, mut b, mut c, mut d], [mut left, mut right]) = (counter, key);
    for _ in 0..ROUNDS {
        let first = u64::from(a) * u64::from(MULTIPLIERS[0]);
        let second = u64::from(c) * u64::from(MULTIPLIERS[1]);
        [a, b, c, d] = [
            (second >> 32) as u32 ^ b ^ left,
            second as u32,
            (first >> 32) as u32 ^ d ^ right,
            first as u32,
        ];
        left = left.wrapping_add(WEYL[0]);
        right = right.wrapping_add(WEYL[1]);
    }
    [a, b, c, d]
}

/// The random word for the token at place `index` among those that are generated with `seed`.
pub(super) fn word(seed: u64, index: u64) -> u64 {
    let halves = |word: u64| [word as u32, (word >> 32) as u32];
    let [low, high] = halves(index);
    let [first, second, ..] = philox([low, high, 0, 0], halves(seed));
    u64::from(first) | u64::from(second) << 32
}
