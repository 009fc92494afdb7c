//! The choice of experts in f64, one token at a time.

use moebius_xla::custom::router::{Route, RouteOutput, Score};
use std::cmp::Ordering;

#[derive(Clone, Debug, Default)]
pub(crate) struct Routed {
    pub(crate) indices: Vec<i32>,
    pub(crate) weights: Vec<f64>,
    pub(crate) probs: Vec<f64>,
    pub(crate) lse: Vec<f64>,
}

impl Routed {
    pub(crate) fn output(&self, of: RouteOutput) -> &[f64] {
        match of {
            RouteOutput::Weights => &self.weights,
            RouteOutput::Probs => &self.probs,
            RouteOutput::Lse => &self.lse,
        }
    }
}

/// The larger first, NaN last.
fn descending(a: f64, b: f64) -> Ordering {
    let nan_last = a.is_nan().cmp(&b.is_nan());
    nan_last.then(b.partial_cmp(&a).unwrap_or(Ordering::Equal))
}

/// Of `places` the `count` best by key, the first of equals first.
fn best(mut places: Vec<usize>, count: usize, key: impl Fn(usize) -> f64) -> Vec<usize> {
    places.sort_by(|a, b| descending(key(*a), key(*b)));
    places.truncate(count);
    places
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

pub(crate) fn route(
    p: &Route,
    logits: &[f64],
    mask: Option<&[i32]>,
    bias: Option<&[f32]>,
) -> Routed {
    let mut routed = Routed::default();
    for row in logits.chunks(p.experts) {
        let open: Vec<usize> = (0..p.experts)
            .filter(|e| mask.is_none_or(|m| m[*e] != 0))
            .collect();
        let largest = open
            .iter()
            .map(|e| row[*e])
            .fold(f64::from(f32::MIN), f64::max);
        let sum: f64 = open.iter().map(|e| (row[*e] - largest).exp()).sum();
        let mut probs = vec![0.0; p.experts];
        for e in &open {
            probs[*e] = match p.score {
                Score::Softmax => (row[*e] - largest).exp() / sum,
                Score::Sigmoid => sigmoid(row[*e]),
            };
        }
        let biased = |e: usize| probs[e] + bias.map_or(0.0, |bias| f64::from(bias[e]));
        let mut candidates = open;
        if let Some(groups) = p.groups {
            let size = p.experts / groups.count;
            let members = |group: usize| -> Vec<usize> {
                candidates
                    .iter()
                    .copied()
                    .filter(|e| e / size == group)
                    .collect()
            };
            let strength = |group: usize| -> f64 {
                best(members(group), 2, biased)
                    .into_iter()
                    .map(biased)
                    .sum()
            };
            let some = (0..groups.count).filter(|group| !members(*group).is_empty());
            let chosen = best(some.collect(), groups.chosen, strength);
            candidates.retain(|e| chosen.contains(&(e / size)));
        }
        let key = |e: usize| if bias.is_some() { biased(e) } else { row[e] };
        let chosen = best(candidates, p.top_k, key);
        let logs: Vec<f64> = chosen.iter().map(|e| log_score(p.score, row[*e])).collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = logs.iter().map(|log| (log - most).exp()).sum();
        for k in 0..p.top_k {
            let weight = match chosen.get(k) {
                None => 0.0,
                Some(_) if p.renormalize => (logs[k] - most).exp() / total,
                Some(e) => probs[*e],
            };
            routed.weights.push(weight * f64::from(p.scale));
            routed
                .indices
                .push(chosen.get(k).map_or(p.experts, |e| *e) as i32);
        }
        routed.probs.extend(probs);
        routed.lse.push(largest + sum.ln());
    }
    routed
}

fn log_score(score: Score, logit: f64) -> f64 {
    match score {
        Score::Softmax => logit,
        Score::Sigmoid => -(-logit).exp().ln_1p(),
    }
}

/// dlogits by central differences, with the choice of experts held.
pub(crate) fn gradient(
    p: &Route,
    of: RouteOutput,
    logits: &[f64],
    limits: (Option<&[i32]>, Option<&[f32]>),
    gradient: &[f32],
) -> Vec<f64> {
    const STEP: f64 = 1e-5;
    let chosen = route(p, logits, limits.0, limits.1).indices;
    let loss = |logits: &[f64]| -> f64 {
        let routed = route(p, logits, limits.0, limits.1);
        assert_eq!(routed.indices, chosen, "the step changed a choice");
        let pairs = routed.output(of).iter().zip(gradient);
        pairs.map(|(value, d)| value * f64::from(*d)).sum()
    };
    let slope = |at: usize| {
        let mut moved = logits.to_vec();
        moved[at] += STEP;
        let up = loss(&moved);
        moved[at] -= 2.0 * STEP;
        (up - loss(&moved)) / (2.0 * STEP)
    };
    (0..logits.len()).map(slope).collect()
}
