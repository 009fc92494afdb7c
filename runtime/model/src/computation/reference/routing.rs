//! A router's choice of experts for one token, in f64.

use moebius::moe::{Groups, MoeConfig, RouteConfig, RouterConfig, Score};

use super::arithmetic::{sigmoid, softmax};
use crate::computation::Choice;

/// The rule of a layer's router; `None` for a router that a decoder doesn't have.
pub(in crate::computation) fn rule(config: &MoeConfig) -> Option<RouteConfig> {
    match config.router {
        RouterConfig::TopK(router) => Some(router.route),
        RouterConfig::SigmoidBias(router) => Some(router.route),
        _ => None,
    }
}

/// Chooses experts from logits \[E\]; `correction` \[E\] is added to the scores for the choice only.
pub(in crate::computation) fn choose(
    rule: &RouteConfig,
    logits: &[f64],
    correction: Option<&[f32]>,
) -> Choice {
    let score = if rule.softmax_after_topk {
        Score::Softmax
    } else {
        rule.score
    };
    let scores = match score {
        Score::Softmax => softmax(logits),
        Score::Sigmoid => logits.iter().copied().map(sigmoid).collect(),
    };
    let corrected = match correction {
        Some(correction) => {
            let sums = scores.iter().zip(correction);
            sums.map(|(score, by)| score + f64::from(*by)).collect()
        }
        None => scores.clone(),
    };
    let groups = groups(rule.groups, &corrected);
    // Scores grow with logits, which are further apart.
    let keys = if correction.is_some() {
        corrected
    } else {
        logits.to_vec()
    };
    let size = keys.len() / groups.len();
    let open = (0..keys.len()).filter(|expert| groups[expert / size].1);
    let mut experts: Vec<usize> = open.collect();
    // A stable sort keeps equal keys in the order of their experts.
    experts.sort_by(|a, b| keys[*b].total_cmp(&keys[*a]));
    experts.truncate(rule.top_k);
    let weights = weights(rule, logits, &scores, &experts);
    Choice {
        keys,
        groups,
        experts,
        weights,
    }
}

/// The value of each group, and whether its experts can be chosen.
fn groups(rule: Option<Groups>, scores: &[f64]) -> Vec<(f64, bool)> {
    let Some(rule) = rule else {
        return vec![(0.0, true)];
    };
    let value = |group: &[f64]| {
        let mut best = group.to_vec();
        best.sort_by(|a, b| b.total_cmp(a));
        best.iter().take(rule.best).sum::<f64>()
    };
    let values: Vec<f64> = scores
        .chunks_exact(scores.len() / rule.count)
        .map(value)
        .collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    let open = &order[..rule.chosen];
    let each = values.iter().enumerate();
    each.map(|(group, value)| (*value, open.contains(&group)))
        .collect()
}

fn weights(rule: &RouteConfig, logits: &[f64], scores: &[f64], experts: &[usize]) -> Vec<f64> {
    let of = |values: &[f64]| -> Vec<f64> { experts.iter().map(|e| values[*e]).collect() };
    let weights = if rule.softmax_after_topk {
        softmax(&of(logits))
    } else {
        let chosen = of(scores);
        let sum: f64 = if rule.renormalize {
            chosen.iter().sum()
        } else {
            1.0
        };
        chosen.iter().map(|score| score / sum).collect()
    };
    let scale = f64::from(rule.scale);
    weights.iter().map(|weight| weight * scale).collect()
}
