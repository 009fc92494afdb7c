//! The router on the host, in plain Rust: an oracle that shares no code with the kernels, but for
//! the hash, which is an integer function with one definition.

use crate::ops::host::{
    Operands, Words, cast_like, float_tensor, floats, int_tensor, matmul, matmul_transposed,
    to_f32, transposed_matmul, words,
};
use crate::ops::tensors::Value;
use burn::backend::Flex;
use moebius_ops::Routing;
use moebius_ops::routing::{self, HashProblem, LoadProblem, Problem, Score, TopkGradient};
use rayon::prelude::*;
use std::cmp::Reverse;

/// Tokens that take a thread longer than waking another.
const TOKENS: usize = 256;

pub(in crate::ops) fn run(operation: &Routing, mut b: Operands) -> Vec<Value<Flex>> {
    match operation {
        Routing::Logits {
            backward: false, ..
        } => {
            let logits = matmul_transposed(to_f32(b.float("x")), to_f32(b.float("Wg")));
            vec![Value::Float(logits)]
        }
        Routing::Logits { .. } => logits_backward(b),
        Routing::Route { problem, .. } => route(problem, b),
        Routing::RouteBackward { problem, of, .. } => route_backward(problem, *of, b),
        Routing::Hash { problem, seed, .. } => hash(problem, *seed, b),
        Routing::Load(problem) => vec![Value::Word(load(problem, &words(b.word("indices"))))],
    }
}

/// The mask's entries as booleans; everything is available without one.
fn available(b: &mut Operands, experts: usize) -> Vec<bool> {
    match b.maybe_word("mask").map(words) {
        None => vec![true; experts],
        Some(mask) => mask.iter().map(|word| *word != 0).collect(),
    }
}

fn logits_backward(mut b: Operands) -> Vec<Value<Flex>> {
    let (x, w, dlogits) = (b.float("x"), b.float("Wg"), b.float("dlogits"));
    let (dtype_x, dtype_w) = (x.dtype(), w.dtype());
    let dx = cast_like(matmul(dlogits.clone(), to_f32(w)), dtype_x);
    let dw = cast_like(transposed_matmul(dlogits, to_f32(x)), dtype_w);
    vec![Value::Float(dx), Value::Float(dw)]
}

fn route(problem: &Problem, mut b: Operands) -> Vec<Value<Flex>> {
    let logits = floats(b.float("logits"));
    let available = available(&mut b, problem.experts());
    let bias = b.maybe_float("bias").map(floats);
    let of_token = |row: &[f32]| {
        let (scores, sum) = scored(row, &available, problem.score());
        let chosen = choose(problem, row, &available, &scores, bias.as_deref());
        (scores, sum, chosen)
    };
    let tokens = logits.par_chunks(problem.experts());
    let routed: Vec<_> = tokens.with_min_len(TOKENS).map(of_token).collect();
    let (mut indices, mut weights) = (Vec::new(), Vec::new());
    let (mut probs, mut lse) = (Vec::with_capacity(logits.len()), Vec::new());
    for (scores, sum, (experts, chosen)) in routed {
        indices.extend(experts);
        weights.extend(chosen);
        probs.extend(scores);
        lse.push(sum);
    }
    let (t, k, e) = (problem.tokens(), problem.top_k(), problem.experts());
    vec![
        Value::Word(int_tensor(&indices, &[t, k])),
        Value::Float(float_tensor(weights, &[t, k])),
        Value::Float(float_tensor(probs, &[t, e])),
        Value::Float(float_tensor(lse, &[t])),
    ]
}

fn hash(problem: &HashProblem, seed: u32, mut b: Operands) -> Vec<Value<Flex>> {
    let sizes = problem.routing();
    let available = available(&mut b, sizes.experts());
    let x = floats(b.float("x"));
    let (indices, weights) = routing::hash_reference(problem, seed, &x, Some(&available));
    let shape = [sizes.tokens(), sizes.top_k()];
    let (indices, weights) = (int_tensor(&indices, &shape), float_tensor(weights, &shape));
    vec![Value::Word(indices), Value::Float(weights)]
}

fn load(problem: &LoadProblem, indices: &[u32]) -> Words {
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
    int_tensor(&counts, &[groups, experts])
}

fn route_backward(problem: &Problem, of: TopkGradient, mut b: Operands) -> Vec<Value<Flex>> {
    let (experts, top_k) = (problem.experts(), problem.top_k());
    let available = available(&mut b, experts);
    let gradient = floats(b.float(match of {
        TopkGradient::Weights => "dweights",
        TopkGradient::Probs => "dprobs",
        TopkGradient::Lse => "dlse",
    }));
    let logits = floats(b.float("logits"));
    let (indices, weights) = (words(b.word("indices")), floats(b.float("weights")));
    let of_token = |(t, row): (usize, &[f32])| -> Vec<f32> {
        let slots = t * top_k..(t + 1) * top_k;
        match of {
            TopkGradient::Weights => {
                let chosen = (&indices[slots.clone()], &weights[slots.clone()]);
                weights_gradient(problem, (row, &available), chosen, &gradient[slots])
            }
            TopkGradient::Probs => {
                let gradient = &gradient[t * experts..(t + 1) * experts];
                probs_gradient(row, &available, problem.score(), gradient)
            }
            TopkGradient::Lse => {
                let softmax = scores(row, &available, Score::Softmax);
                softmax.iter().map(|p| p * gradient[t]).collect()
            }
        }
    };
    let tokens = logits.par_chunks(experts).enumerate();
    let dlogits: Vec<_> = tokens.with_min_len(TOKENS).map(of_token).collect();
    let dlogits = dlogits.concat();
    let shape = [problem.tokens(), experts];
    vec![Value::Float(float_tensor(dlogits, &shape))]
}

/// Scores of one token; 0 for experts that aren't available.
fn scores(row: &[f32], available: &[bool], score: Score) -> Vec<f32> {
    scored(row, available, score).0
}

/// [`scores`], and ln Σ exp of the available logits.
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

/// The `most` best experts by key, largest first; equal keys keep the order of their index, NaN comes
/// last.
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

/// A number that orders as `key`, 0 for NaN; both zeros are equal.
fn rank(key: f32) -> u32 {
    let bits = (key + 0.0).to_bits();
    match key {
        _ if key.is_nan() => 0,
        _ if bits >> 31 == 1 => !bits,
        _ => bits | 1 << 31,
    }
}

/// The experts of the best groups; all of them without groups.
fn in_best_groups(
    problem: &routing::Problem,
    key: &dyn Fn(usize) -> f32,
    available: &[bool],
) -> Vec<usize> {
    let candidates = (0..available.len()).filter(|e| available[*e]);
    let Some(groups) = problem.groups() else {
        return candidates.collect();
    };
    let size = available.len() / groups.count;
    let strength = |group: usize| -> f32 {
        let members = (group * size..(group + 1) * size).filter(|e| available[*e]);
        let best = best_of(members, key, 2);
        if best.is_empty() {
            return f32::NEG_INFINITY;
        }
        best.iter().map(|e| key(*e)).sum()
    };
    let best = best_of(0..groups.count, &strength, groups.chosen);
    candidates.filter(|e| best.contains(&(e / size))).collect()
}

/// The experts of one token, best first, and their weights.
fn choose(
    problem: &routing::Problem,
    row: &[f32],
    available: &[bool],
    scores: &[f32],
    bias: Option<&[f32]>,
) -> (Vec<u32>, Vec<f32>) {
    let biased = |e: usize| scores[e] + bias.map_or(0.0, |bias| bias[e]);
    let key = |e: usize| match bias {
        Some(_) => biased(e),
        // Both scores grow with the logit, whose order is exact.
        None => row[e],
    };
    let candidates = in_best_groups(problem, &biased, available);
    let best = best_of(candidates.into_iter(), &key, problem.top_k());
    let mut weights: Vec<f32> = best.iter().map(|e| scores[*e]).collect();
    if problem.renormalize() {
        // Logarithms of the scores, so that a tiny sum of sigmoids doesn't divide 0 by 0.
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

/// A token's logits gradient through the weights of its chosen experts.
fn weights_gradient(
    problem: &routing::Problem,
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
    // Weights that are all 0 have no gradient, rather than 0 / 0.
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

/// A token's logits gradient through the scores of all experts.
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
