//! The choice of experts; it shares no code with the kernels, so that it can serve as their oracle.

use crate::product::{Factor, Product, Run, products};
use moebius_ops::routing::{LoadProblem, Problem, Score, TopkGradient};
use rayon::prelude::*;
use std::cmp::Reverse;

/// The least number of tokens per thread, below which waking a thread takes longer than its work.
const TOKENS: usize = 256;

/// Computes the logits x · Wgᵀ \[T,E\] from x \[T,H\] and Wg \[E,H\]; the sizes are T, H and E.
pub fn logits(x: &[f32], w: &[f32], [tokens, hidden, experts]: [usize; 3]) -> Vec<f32> {
    let left = Factor::of_slice(x, hidden, Run::Along);
    let right = Factor::of_slice(w, hidden, Run::Along);
    products(&[Product::new(left, right, [tokens, hidden, experts])])
}

/// Computes the gradients of x \[T,H\] and Wg \[E,H\] from that of the logits \[T,E\]; the sizes are T, H and E.
pub fn logits_backward(
    [x, w, dlogits]: [&[f32]; 3],
    [tokens, hidden, experts]: [usize; 3],
) -> [Vec<f32>; 2] {
    let left = Factor::of_slice(dlogits, experts, Run::Along);
    let right = Factor::of_slice(w, hidden, Run::Across);
    let dx = products(&[Product::new(left, right, [tokens, experts, hidden])]);
    let left = Factor::of_slice(dlogits, experts, Run::Across);
    let right = Factor::of_slice(x, hidden, Run::Across);
    let dw = products(&[Product::new(left, right, [experts, tokens, hidden])]);
    [dx, dw]
}

/// The results of a choice of experts.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// The chosen experts, \[T,K\].
    pub indices: Vec<u32>,
    /// Their weights, \[T,K\].
    pub weights: Vec<f32>,
    /// The probabilities of all experts, \[T,E\].
    pub probs: Vec<f32>,
    /// ln Σ exp of the logits of available experts, \[T\].
    pub logsumexp: Vec<f32>,
}

/// Chooses experts from logits \[T,E\] among the available ones; a bias \[E\] is added to the scores for the selection only.
pub fn route(
    problem: &Problem,
    logits: &[f32],
    available: &[bool],
    bias: Option<&[f32]>,
) -> Chosen {
    let of_token = |row: &[f32]| {
        let (scores, sum) = scored(row, available, problem.score());
        let chosen = choose(problem, row, available, &scores, bias);
        (scores, sum, chosen)
    };
    let tokens = logits.par_chunks(problem.experts());
    let routed: Vec<_> = tokens.with_min_len(TOKENS).map(of_token).collect();
    let mut all = Chosen {
        probs: Vec::with_capacity(logits.len()),
        ..Chosen::default()
    };
    for (scores, sum, (experts, weights)) in routed {
        all.indices.extend(experts);
        all.weights.extend(weights);
        all.probs.extend(scores);
        all.logsumexp.push(sum);
    }
    all
}

/// Counts how often each expert occurs in groups of the rows of `indices` \[T,K\]: \[groups, E\].
pub fn load(problem: &LoadProblem, indices: &[u32]) -> Vec<u32> {
    let (groups, experts) = (problem.groups(), problem.routing().experts());
    let mut counts = vec![0; groups * experts];
    let slots = indices.chunks(problem.routing().top_k()).enumerate();
    for (token, chosen) in slots {
        let group = token / problem.tokens() * experts;
        for expert in &chosen[..problem.choices()] {
            if (*expert as usize) < experts {
                counts[group + *expert as usize] += 1;
            }
        }
    }
    counts
}

/// Computes the gradient of the logits \[T,E\] from the gradient of one result of a choice; only the indices and weights of `chosen` are
/// read.
pub fn route_backward(
    problem: &Problem,
    of: TopkGradient,
    (logits, available): (&[f32], &[bool]),
    chosen: &Chosen,
    gradient: &[f32],
) -> Vec<f32> {
    let (experts, top_k) = (problem.experts(), problem.top_k());
    let of_token = |(t, row): (usize, &[f32])| -> Vec<f32> {
        let slots = t * top_k..(t + 1) * top_k;
        match of {
            TopkGradient::Weights => {
                let of_slots = (
                    &chosen.indices[slots.clone()],
                    &chosen.weights[slots.clone()],
                );
                weights_gradient(problem, (row, available), of_slots, &gradient[slots])
            }
            TopkGradient::Probs => {
                let gradient = &gradient[t * experts..(t + 1) * experts];
                probs_gradient(row, available, problem.score(), gradient)
            }
            TopkGradient::Lse => {
                let softmax = scores(row, available, Score::Softmax);
                softmax.iter().map(|p| p * gradient[t]).collect()
            }
        }
    };
    let tokens = logits.par_chunks(experts).enumerate();
    let dlogits: Vec<_> = tokens.with_min_len(TOKENS).map(of_token).collect();
    dlogits.concat()
}

/// Computes the scores of one token; 0 for unavailable experts.
fn scores(row: &[f32], available: &[bool], score: Score) -> Vec<f32> {
    scored(row, available, score).0
}

/// Computes the scores of one token, and ln Σ exp of the available logits.
fn scored(row: &[f32], available: &[bool], score: Score) -> (Vec<f32>, f32) {
    let pairs = || row.iter().zip(available);
    let logits = pairs().filter(|(_, available)| **available);
    let largest = logits.fold(f32::NEG_INFINITY, |most, (logit, _)| most.max(*logit));
    let of = |f: &dyn Fn(f32) -> f32| -> Vec<f32> {
        let value = |(logit, available): (&f32, &bool)| if *available { f(*logit) } else { 0.0 };
        pairs().map(value).collect()
    };
    let mut scores = of(&|logit| (logit - largest).exp());
    let sum: f32 = scores.iter().sum();
    match score {
        Score::Sigmoid => scores = of(&|logit| 1.0 / (1.0 + (-logit).exp())),
        Score::Softmax if sum == 0.0 => scores.fill(0.0),
        Score::Softmax => scores.iter_mut().for_each(|exp| *exp /= sum),
    }
    (scores, largest + sum.ln())
}

/// Returns the `most` experts with the largest keys, largest first; equal keys are ordered by index, and NaN comes last.
fn best_of(
    experts: impl Iterator<Item = usize>,
    key: &dyn Fn(usize) -> f32,
    most: usize,
) -> Vec<usize> {
    let mut ranked: Vec<_> = experts.map(|e| (Reverse(rank(key(e))), e)).collect();
    if most < ranked.len() {
        ranked.select_nth_unstable(most);
        ranked.truncate(most);
    }
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, e)| e).collect()
}

/// Returns a number with the order of `key`; NaN gives 0, and both zeros are equal.
fn rank(key: f32) -> u32 {
    let bits = (key + 0.0).to_bits();
    match key {
        _ if key.is_nan() => 0,
        _ if bits >> 31 == 1 => !bits,
        _ => bits | 1 << 31,
    }
}

/// Returns the available experts of the best groups, or all available experts without groups.
fn in_best_groups(problem: &Problem, key: &dyn Fn(usize) -> f32, available: &[bool]) -> Vec<usize> {
    let candidates = (0..available.len()).filter(|e| available[*e]);
    let Some(groups) = problem.groups() else {
        return candidates.collect();
    };
    let size = available.len() / groups.count;
    let strength = |group: usize| -> f32 {
        let members = (group * size..(group + 1) * size).filter(|e| available[*e]);
        let best = best_of(members, key, groups.best);
        if best.is_empty() {
            return f32::NEG_INFINITY;
        }
        best.iter().map(|e| key(*e)).sum()
    };
    let best = best_of(0..groups.count, &strength, groups.chosen);
    candidates.filter(|e| best.contains(&(e / size))).collect()
}

/// Chooses the experts of one token, best first, and their weights.
fn choose(
    problem: &Problem,
    row: &[f32],
    available: &[bool],
    scores: &[f32],
    bias: Option<&[f32]>,
) -> (Vec<u32>, Vec<f32>) {
    let biased = |e: usize| scores[e] + bias.map_or(0.0, |bias| bias[e]);
    let key = |e: usize| match bias {
        Some(_) => biased(e),
        // Both kinds of scores grow with the logit, whose order is exact.
        None => row[e],
    };
    let candidates = in_best_groups(problem, &biased, available);
    let best = best_of(candidates.into_iter(), &key, problem.top_k());
    let mut weights: Vec<f32> = best.iter().map(|e| scores[*e]).collect();
    if problem.renormalize() {
        // Logarithms of the scores are used, so that a tiny sum of sigmoids doesn't divide 0 by 0.
        let log = |e: &usize| match problem.score() {
            Score::Softmax => row[*e],
            Score::Sigmoid => row[*e].min(0.0) - (-row[*e].abs()).exp().ln_1p(),
        };
        let logs: Vec<f32> = best.iter().map(log).collect();
        let largest = logs.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let exp = logs.iter().map(|l| (l - largest).exp());
        let sum: f32 = exp.clone().sum();
        weights = exp.map(|exp| exp / sum).collect();
    }
    weights.iter_mut().for_each(|w| *w *= problem.scale());
    let mut experts: Vec<u32> = best.iter().map(|e| *e as u32).collect();
    experts.resize(problem.top_k(), problem.experts() as u32);
    weights.resize(problem.top_k(), 0.0);
    (experts, weights)
}

/// Computes a token's gradient of the logits through the weights of its chosen experts.
fn weights_gradient(
    problem: &Problem,
    (row, available): (&[f32], &[bool]),
    (chosen, weights): (&[u32], &[f32]),
    gradient: &[f32],
) -> Vec<f32> {
    let mut through = vec![0.0; row.len()];
    let chosen = chosen.iter().enumerate();
    let slots = || chosen.clone().filter(|(_, e)| (**e as usize) < row.len());
    if !problem.renormalize() {
        for (k, e) in slots() {
            through[*e as usize] += gradient[k] * problem.scale();
        }
        return probs_gradient(row, available, problem.score(), &through);
    }
    // With a scale of 0 all weights are 0, and have a gradient of 0 rather than 0 / 0.
    let inverse = match problem.scale() {
        0.0 => 0.0,
        scale => scale.recip(),
    };
    let dot = slots().map(|(k, _)| weights[k] * gradient[k]).sum::<f32>() * inverse;
    for (k, e) in slots() {
        let d_log = weights[k] * (gradient[k] - dot);
        let d_logit = match problem.score() {
            Score::Softmax => 1.0,
            // d ln σ(l) / dl = σ(−l).
            Score::Sigmoid => 1.0 / (1.0 + row[*e as usize].exp()),
        };
        through[*e as usize] += d_log * d_logit;
    }
    through
}

/// Computes a token's gradient of the logits through the scores of all experts.
fn probs_gradient(row: &[f32], available: &[bool], score: Score, gradient: &[f32]) -> Vec<f32> {
    let p = scores(row, available, score);
    match score {
        Score::Sigmoid => (0..row.len())
            .map(|e| p[e] * (1.0 - p[e]) * gradient[e])
            .collect(),
        Score::Softmax => {
            let dot: f32 = p.iter().zip(gradient).map(|(p, g)| p * g).sum();
            (0..row.len()).map(|e| p[e] * (gradient[e] - dot)).collect()
        }
    }
}
