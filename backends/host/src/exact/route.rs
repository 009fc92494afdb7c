//! The choice of experts, one token at a time.

use super::functions::{exp, ln, reciprocal, settled, sigmoid};
use moebius_ops::routing::{Problem, Score};

/// The results of a choice of experts.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// The chosen experts, \[T, K\].
    pub indices: Vec<u32>,
    /// Their weights, \[T, K\].
    pub weights: Vec<f32>,
    /// The scores of all experts, \[T, E\].
    pub probs: Vec<f32>,
    /// ln Σ exp of the logits, \[T\].
    pub logsumexp: Vec<f32>,
}

/// Chooses experts by logits \[T, E\]; a bias \[E\] is added to the scores for the selection only.
pub fn route(problem: &Problem, logits: &[f32], bias: Option<&[f32]>) -> Chosen {
    let mut all = Chosen::default();
    for row in logits.chunks_exact(problem.experts()) {
        let row: Vec<f32> = row.iter().map(|logit| settled(*logit)).collect();
        let (scores, lse) = scored(&row, problem.score());
        let key = |e: usize| match bias {
            Some(bias) => settled(scores[e]) + settled(bias[e]),
            None => row[e],
        };
        let experts = best(row.len(), key, problem.top_k());
        let weights = weighted(problem, &row, &scores, &experts);
        all.indices.extend(experts.iter().map(|e| *e as u32));
        all.weights.extend(weights);
        all.probs.extend(scores);
        all.logsumexp.push(lse);
    }
    all
}

/// The scores of one token, and ln Σ exp of its logits.
fn scored(row: &[f32], score: Score) -> (Vec<f32>, f32) {
    let top = largest(row);
    let mut scores: Vec<f32> = row.iter().map(|logit| exp(logit - top)).collect();
    let sum = scores.iter().fold(0.0, |sum, share| sum + share);
    let factor = reciprocal(sum);
    for (score_of, logit) in scores.iter_mut().zip(row) {
        *score_of = settled(match score {
            Score::Softmax => settled(*score_of) * factor,
            Score::Sigmoid => sigmoid(*logit),
        });
    }
    (scores, settled(top + ln(sum)))
}

fn largest(numbers: &[f32]) -> f32 {
    numbers.iter().copied().fold(f32::MIN, f32::max)
}

/// The `most` experts with the largest keys, the largest first, ties to the lowest index.
fn best(experts: usize, key: impl Fn(usize) -> f32, most: usize) -> Vec<usize> {
    let mut chosen: Vec<usize> = Vec::with_capacity(most);
    for _ in 0..most {
        let mut found: Option<usize> = None;
        for e in 0..experts {
            let better = found.is_none_or(|found| key(e) > key(found));
            if better && !chosen.contains(&e) {
                found = Some(e);
            }
        }
        chosen.extend(found);
    }
    chosen
}

/// The weights of a token's experts.
fn weighted(problem: &Problem, row: &[f32], scores: &[f32], experts: &[usize]) -> Vec<f32> {
    let scale = problem.scale();
    if !problem.renormalize() {
        let raw = experts.iter().map(|e| settled(scale * settled(scores[*e])));
        return raw.collect();
    }
    // Logarithms of the scores are used, so that a tiny sum of sigmoids doesn't divide 0 by 0.
    let log = |e: &usize| match problem.score() {
        Score::Softmax => row[*e],
        Score::Sigmoid => {
            let low = row[*e].min(0.0);
            settled(low - ln(1.0 + exp(-row[*e].abs())))
        }
    };
    let logs: Vec<f32> = experts.iter().map(log).collect();
    let top = largest(&logs);
    let shares: Vec<f32> = logs.iter().map(|log| exp(log - top)).collect();
    let sum = shares.iter().fold(0.0, |sum, share| sum + share);
    let factor = reciprocal(sum);
    let weights = shares
        .iter()
        .map(|share| settled(scale * (settled(*share) * factor)));
    weights.collect()
}
