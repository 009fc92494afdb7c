//! The candidate tokens with their weights, the random words that select one of them, and log-probabilities.
//!
//! Weights are integers, so that sums are exact in any order and no selection needs a sort: the most likely token has the weight 2⁴⁰, and a
//! token that is less than 2⁻⁴¹ times as likely has the weight 0.

use std::cmp::Ordering;

/// Weight of the most likely token.
const HEAVIEST: f64 = (1_u64 << 40) as f64;

/// Largest number of ids of a vocabulary, which keeps the sum of weights below 2⁶⁴.
pub(super) const MOST_IDS: usize = 1 << 23;

/// Number of weight classes: one more than the class of the heaviest weight, which has 41 bits.
const CLASSES: usize = 42 * 8;

#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) id: u32,
    score: f32,
    pub(super) weight: u64,
}

impl Candidate {
    /// Weight class: 8 times the number of bits of the weight, plus its three bits after the first. A heavier candidate never has a lower
    /// class.
    fn class(&self) -> usize {
        let bits = (u64::BITS - self.weight.leading_zeros()) as usize;
        let first_four = (self.weight << 3) >> bits.saturating_sub(1);
        bits * 8 + first_four as usize % 8
    }

    /// Total order by rank: the more likely candidate first, and of equally likely ones the one with the lower id.
    fn rank(&self, other: &Self) -> Ordering {
        descending(self.score, other.score).then(self.id.cmp(&other.id))
    }
}

/// The candidates for the next token, always in the order of their ids.
#[derive(Clone, Debug)]
pub(super) struct Candidates(Vec<Candidate>);

impl Candidates {
    /// The ids with scores above −∞ and not below the k-th highest score. `scores` must have no NaN, and at least one score above −∞.
    pub(super) fn new(scores: &[f32], temperature: f32, top_k: usize) -> Self {
        let least = kth_highest(scores, top_k);
        let highest = f64::from(scores.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let kept = (0..).zip(scores).filter(|(_, score)| {
            // Without this check, −∞ would be kept when fewer than k scores are above it.
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

    /// Keeps the fewest most likely candidates, at least one, whose weights reach the share `top_p` of the sum.
    pub(super) fn keep_top_p(&mut self, top_p: f32) {
        let wanted = (f64::from(top_p) * self.weight() as f64).ceil() as u64;
        // Only candidates in the same class as the last one to keep are compared with each other.
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

    /// Keeps candidates that are at least `min_p` times as likely as the most likely one.
    pub(super) fn keep_min_p(&mut self, min_p: f32) {
        let least = f64::from(min_p) * HEAVIEST;
        self.0.retain(|candidate| candidate.weight as f64 >= least);
    }

    /// The sum of the weights of all candidates.
    pub(super) fn weight(&self) -> u64 {
        self.0.iter().map(|candidate| candidate.weight).sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Candidate> {
        self.0.iter()
    }

    /// The id of the candidate that a random word selects.
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

/// The last of the fewest most likely candidates, at least one, whose weights reach `wanted`, or of all candidates.
fn last_kept(mut ranked: Vec<Candidate>, wanted: u64) -> Option<Candidate> {
    // Candidates before `from` are kept and their weights add up to `kept`; the last one to keep lies before `to`.
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

/// The k-th highest score; −∞ if there are fewer than k scores, or k is 0.
pub(super) fn kth_highest(scores: &[f32], k: usize) -> f32 {
    if k == 0 || k >= scores.len() {
        return f32::NEG_INFINITY;
    }
    let mut scores = scores.to_vec();
    let (_, kth, _) = scores.select_nth_unstable_by(k - 1, |a, b| descending(*a, *b));
    *kth
}

/// Descending order. A comparison of bits wouldn't do, as it distinguishes 0 and −0.
pub(super) fn descending(one: f32, other: f32) -> Ordering {
    let order = other.partial_cmp(&one);
    order.unwrap_or_else(|| unreachable!("logits were checked for NaN"))
}

/// Log-probabilities from the unchanged logits of the model, before biases, penalties and temperature.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprobs {
    /// Log-probability of the chosen token.
    pub chosen: f32,
    /// The most likely ids with their log-probabilities, in descending order and by id where equal; ids with probability 0 are left out.
    pub top: Vec<(u32, f32)>,
}

impl Logprobs {
    /// Computes the log-probabilities of `chosen` and of the `most` most likely ids. `logits` must have neither NaN nor +∞, and at least
    /// one value above −∞.
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
    // The sort is stable, so of equal ids the lower stays first.
    ids.sort_by(|one, other| descending(logits[*one as usize], logits[*other as usize]));
    ids.truncate(most);
    ids
}

const ROUNDS: usize = 10;
/// Multipliers of a round, and (below) the increments of the key after each round.
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Four random words of Philox 4×32-10, a pure function of `counter` and `key`: they can be computed in any order.
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

/// Random word for the generated token at index `index`, with `seed`.
pub(super) fn word(seed: u64, index: u64) -> u64 {
    let halves = |word: u64| [word as u32, (word >> 32) as u32];
    let [low, high] = halves(index);
    let [first, second, ..] = philox([low, high, 0, 0], halves(seed));
    u64::from(first) | u64::from(second) << 32
}
