//! How likely a model holds tokens.

use super::candidates::descending;

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
    let possible = (0_u32..)
        .zip(logits)
        .filter(|(_, logit)| **logit > f32::NEG_INFINITY);
    let mut ids: Vec<u32> = possible.map(|(id, _)| id).collect();
    let rank = |one: &u32, other: &u32| {
        let [a, b] = [one, other].map(|&id| logits[id as usize]);
        descending(a, b).then(one.cmp(other))
    };
    if most == 0 {
        return Vec::new();
    }
    if most < ids.len() {
        ids.select_nth_unstable_by(most - 1, rank);
        ids.truncate(most);
    }
    ids.sort_unstable_by(rank);
    ids
}
