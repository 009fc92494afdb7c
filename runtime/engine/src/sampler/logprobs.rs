//! How likely a model holds tokens.

use super::candidates::{descending, kth_highest};

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
