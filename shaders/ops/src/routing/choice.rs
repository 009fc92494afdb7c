//! The oracles of the router's logits, the choice of experts, and their gradients: plain Rust, f64, one token at a time.

use super::{Groups, Problem, Score};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// The oracle of router logits, in f64: logits\[t,e\] = Σ_h x\[t,h\] · w\[e,h\] of x \[T,H\] and w \[E,H\]. Kernels
/// compute them in f32, whatever the dtype of x and w.
///
/// FLOPs 2·T·E·H; bytes (T·H + E·H) elements read, 4·T·E written.
pub fn logits_reference(x: &[f32], w: &[f32], hidden: usize) -> Vec<f64> {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
        products.sum()
    };
    x.chunks(hidden)
        .flat_map(|token| w.chunks(hidden).map(move |expert| dot(token, expert)))
        .collect()
}

/// The oracle of the gradients of router logits, in f64: dx\[t\] = Σ_e dl\[t,e\] · w\[e\] and dw\[e\] = Σ_t dl\[t,e\] · x\[t\].
///
/// Shapes: dl \[T,E\] f32, x and dx \[T,H\] and w \[E,H\] of the element type, dw \[E,H\] f32.
///
/// FLOPs 2·T·E·H each; bytes (T·H + E·H) elements and 4·T·E read, T·H elements or 4·E·H written.
pub fn logits_backward_reference(
    dlogits: &[f32],
    x: &[f32],
    w: &[f32],
    hidden: usize,
) -> (Vec<f64>, Vec<f64>) {
    let experts = w.len() / hidden;
    let (mut dx, mut dw) = (vec![0.0; x.len()], vec![0.0; w.len()]);
    for (i, d) in dlogits.iter().enumerate() {
        let (token, expert) = (i / experts * hidden, i % experts * hidden);
        for h in 0..hidden {
            dx[token + h] += f64::from(*d) * f64::from(w[expert + h]);
            dw[expert + h] += f64::from(*d) * f64::from(x[token + h]);
        }
    }
    (dx, dw)
}

/// The results of [`reference()`]: `indices` and `weights` \[T,K\], `probs` \[T,E\], `lse` \[T\].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routed {
    /// Chosen experts; E for a slot that found no available expert.
    pub indices: Vec<u32>,
    /// Weights of the chosen experts.
    pub weights: Vec<f64>,
    /// Scores of all experts; 0 for a masked expert.
    pub probs: Vec<f64>,
    /// Logsumexp over the available experts.
    pub lse: Vec<f64>,
}

/// The oracle of the choice without a bias, in f64, for `logits` \[T,E\].
pub fn reference(problem: &Problem, logits: &[f32], mask: Option<&[bool]>) -> Routed {
    reference_with_bias(problem, logits, mask, None)
}

/// The oracle of the choice, in f64, for `logits` \[T,E\], `mask` and `bias` \[E\].
pub fn reference_with_bias(
    problem: &Problem,
    logits: &[f32],
    mask: Option<&[bool]>,
    bias: Option<&[f32]>,
) -> Routed {
    let mut routed = Routed::default();
    let available = |e: &usize| mask.is_none_or(|mask| mask[*e]);
    for row in logits.chunks(problem.experts) {
        let logit = |e: usize| {
            if available(&e) {
                f64::from(row[e])
            } else {
                f64::NEG_INFINITY
            }
        };
        let masked: Vec<f64> = (0..row.len()).map(logit).collect();
        let mut probs = match problem.score {
            _ if !(0..row.len()).any(|e| available(&e)) => vec![0.0; row.len()],
            Score::Softmax => softmax(&masked),
            Score::Sigmoid => masked.iter().map(|l| 1.0 / (1.0 + (-l).exp())).collect(),
        };
        // A masked expert gets 0 even when a NaN among the other logits makes every share NaN.
        let unavailable = (0..row.len()).filter(|e| !available(e));
        unavailable.for_each(|e| probs[e] = 0.0);
        let biased = |e: usize| probs[e] + bias.map_or(0.0, |bias| f64::from(bias[e]));
        let key = |e: usize| match bias {
            Some(_) => biased(e),
            None => f64::from(row[e]),
        };
        let open = open_groups_reference(problem, &available, &biased);
        let mut order: Vec<usize> = (0..row.len()).filter(available).filter(open).collect();
        // A stable sort keeps equal keys in the order of their indices.
        order.sort_by(|a, b| descending(key(*a), key(*b)));
        order.truncate(problem.top_k);
        let mut weights = weights_reference(problem, row, &probs, &order);
        order.resize(problem.top_k, problem.experts);
        weights.resize(problem.top_k, 0.0);
        routed.indices.extend(order.iter().map(|e| *e as u32));
        routed.weights.extend(weights);
        routed.probs.extend(probs);
        routed.lse.push(logsumexp(&masked));
    }
    routed
}

/// Orders larger numbers first and NaN last.
fn descending(a: f64, b: f64) -> Ordering {
    let nan_last = a.is_nan().cmp(&b.is_nan());
    nan_last.then(b.partial_cmp(&a).unwrap_or(Ordering::Equal))
}

/// A predicate that tells whether an expert belongs to a chosen group.
fn open_groups_reference(
    problem: &Problem,
    available: &dyn Fn(&usize) -> bool,
    biased: &dyn Fn(usize) -> f64,
) -> impl Fn(&usize) -> bool + use<> {
    let groups = problem.groups.unwrap_or(Groups {
        count: 1,
        chosen: 1,
        best: 2,
    });
    let size = problem.experts / groups.count;
    let score = |group: usize| {
        let experts = (group * size..(group + 1) * size).filter(available);
        let mut scores: Vec<f64> = experts.map(biased).collect();
        scores.sort_by(|a, b| descending(*a, *b));
        let best = scores.iter().take(groups.best).copied();
        best.reduce(|a, b| a + b).map(|sum| (group, sum))
    };
    let mut scores: Vec<(usize, f64)> = (0..groups.count).filter_map(score).collect();
    scores.sort_by(|a, b| descending(a.1, b.1));
    scores.truncate(groups.chosen);
    move |expert| scores.iter().any(|(group, _)| expert / size == *group)
}

/// The weights of the experts in `order`.
fn weights_reference(problem: &Problem, row: &[f32], probs: &[f64], order: &[usize]) -> Vec<f64> {
    let scores: Vec<f64> = order.iter().map(|e| probs[*e]).collect();
    let weights = match problem.score {
        _ if !problem.renormalize => scores,
        Score::Softmax => {
            let chosen: Vec<f64> = order.iter().map(|e| f64::from(row[*e])).collect();
            softmax(&chosen)
        }
        Score::Sigmoid => {
            let sum: f64 = scores.iter().sum();
            scores.iter().map(|score| score / sum).collect()
        }
    };
    let scale = f64::from(problem.scale);
    weights.iter().map(|weight| weight * scale).collect()
}

fn softmax(logits: &[f64]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exp: Vec<f64> = logits.iter().map(|l| (l - largest).exp()).collect();
    let sum: f64 = exp.iter().sum();
    exp.iter().map(|e| e / sum).collect()
}

fn logsumexp(logits: &[f64]) -> f64 {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY && !logits.iter().any(|l| l.is_nan()) {
        return largest;
    }
    let sum: f64 = logits.iter().map(|l| (l - largest).exp()).sum();
    largest + sum.ln()
}

/// The output of the choice whose gradient is given, for the gradient of the logits.
///
/// The chosen indices are constants; mask, bias and groups only affect which indices are chosen. With u = w / scale, and d the
/// gradient of the output,
///
/// | of | softmax | sigmoid |
/// |---|---|---|
/// | weights, raw | p_e · (scale·d_e − Σ_k d_k·w_k), d_e = 0 unless chosen | scale · d_e · σ'(l_e) |
/// | weights, renormalised | w_e · (d_e − Σ_k d_k·u_k) for the chosen | the same · σ(−l_e) |
/// | probs | p_e · (d_e − Σ_j d_j·p_j) | d_e · σ'(l_e) |
/// | lse | d · exp(l_e − lse) | the same |
///
/// Shapes: dlogits \[T,E\], d \[T,K\], \[T,E\] or \[T\], all f32. A masked expert, or one with probability 0 where the formula
/// has p as a factor, gets 0 for any d. Sums run over k in order, or over e lane by lane and then over the lanes.
///
/// FLOPs: at most T·E·(K + 4). Bytes: at most 4·T·(3·E + 3·K).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TopkGradient {
    /// The weights \[T,K\].
    Weights,
    /// The probabilities \[T,E\].
    Probs,
    /// The logsumexp \[T\].
    Lse,
}

/// The oracle, in f64: dlogits \[T,E\] for `logits`, their choice `routed`, and the `gradient` of one of its outputs.
pub fn topk_backward_reference(
    problem: &Problem,
    of: TopkGradient,
    logits: &[f32],
    mask: Option<&[bool]>,
    routed: &Routed,
    gradient: &[f64],
) -> Vec<f64> {
    let (experts, top_k) = (problem.experts, problem.top_k);
    let mut dlogits = Vec::with_capacity(logits.len());
    for (token, logits) in logits.chunks(experts).enumerate() {
        let probs = &routed.probs[token * experts..][..experts];
        let mut row = match of {
            TopkGradient::Lse => {
                let p = |l: &f32| gradient[token] * (f64::from(*l) - routed.lse[token]).exp();
                logits.iter().map(p).collect()
            }
            TopkGradient::Probs => through_score(
                problem,
                logits,
                probs,
                &gradient[token * experts..][..experts],
            ),
            TopkGradient::Weights => {
                let slots = token * top_k..(token + 1) * top_k;
                let chosen = routed.indices[slots.clone()].iter().map(|e| *e as usize);
                let pairs = chosen.zip(gradient[slots].iter().copied());
                let pairs: Vec<_> = pairs.filter(|(e, _)| *e < experts).collect();
                through_weights(problem, logits, probs, &pairs)
            }
        };
        for (e, d) in row.iter_mut().enumerate() {
            if mask.is_some_and(|mask| !mask[e]) {
                *d = 0.0;
            }
        }
        dlogits.extend(row);
    }
    dlogits
}

/// The gradient of terms through their `share`s of the sum: share · (d − Σ share · d), as of a softmax.
fn through_shares(share: &[f64], d: &[f64]) -> Vec<f64> {
    let dot: f64 = share.iter().zip(d).map(|(share, d)| share * d).sum();
    let each = share.iter().zip(d).map(|(share, d)| share * (d - dot));
    each.collect()
}

/// The gradient of the logits from the gradient `d` of all scores.
fn through_score(problem: &Problem, logits: &[f32], probs: &[f64], d: &[f64]) -> Vec<f64> {
    match problem.score {
        Score::Softmax => through_shares(probs, d),
        Score::Sigmoid => {
            let slope = |l: &f32| sigmoid_host(*l) * sigmoid_host(-*l);
            logits
                .iter()
                .map(slope)
                .zip(d)
                .map(|(s, d)| s * d)
                .collect()
        }
    }
}

/// The gradient of the logits from the gradients of the chosen experts' weights.
fn through_weights(
    problem: &Problem,
    logits: &[f32],
    probs: &[f64],
    chosen: &[(usize, f64)],
) -> Vec<f64> {
    let scale = f64::from(problem.scale);
    let mut row = vec![0.0; logits.len()];
    if !problem.renormalize {
        for (e, d) in chosen {
            row[*e] = scale * d;
        }
        return through_score(problem, logits, probs, &row);
    }
    let logit = |(e, _): &(usize, f64)| f64::from(logits[*e]);
    let largest = chosen.iter().map(logit).fold(f64::MIN, f64::max);
    let part = |pair: &(usize, f64)| match problem.score {
        Score::Softmax => (logit(pair) - largest).exp(),
        Score::Sigmoid => sigmoid_host(logits[pair.0]),
    };
    let parts: Vec<f64> = chosen.iter().map(part).collect();
    let sum: f64 = parts.iter().sum();
    let share: Vec<f64> = parts.iter().map(|part| part / sum).collect();
    let d: Vec<f64> = chosen.iter().map(|(_, d)| scale * d).collect();
    for ((e, _), d) in chosen.iter().zip(through_shares(&share, &d)) {
        row[*e] = match problem.score {
            Score::Softmax => d,
            // The derivative of ln σ(l) is σ(−l).
            Score::Sigmoid => d * sigmoid_host(-logits[*e]),
        };
    }
    row
}

fn sigmoid_host(logit: f32) -> f64 {
    1.0 / (1.0 + (-f64::from(logit)).exp())
}

#[cfg(test)]
#[path = "choice_tests.rs"]
mod tests;
