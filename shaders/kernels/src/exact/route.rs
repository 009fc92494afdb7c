//! The choice of experts, with one unit for each token.

use super::functions::{add, exp, ln, most, mul, reciprocal, settled, sigmoid, sub};
use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::routing::{Problem, Score};

/// Compile-time parameters of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spec {
    score: Score,
    renormalize: bool,
}

/// Writes the scores of the token whose logits begin at `first`; returns ln Σ exp of its logits.
#[cube]
fn write_probs(
    logits: &[f32],
    probs: &mut [f32],
    first: usize,
    experts: usize,
    zero: u32,
    #[comptime] score: Score,
) -> f32 {
    let mut top = f32::min_value();
    for e in 0..experts {
        top = most(top, settled(logits[first + e]));
    }
    let mut sum = 0.0f32;
    for e in 0..experts {
        let share = exp(sub(settled(logits[first + e]), top, zero), zero);
        sum = add(sum, share, zero);
        if comptime!(score == Score::Sigmoid) {
            probs[first + e] = settled(sigmoid(settled(logits[first + e]), zero));
        } else {
            probs[first + e] = share;
        }
    }
    if comptime!(score == Score::Softmax) {
        let factor = reciprocal(sum, zero);
        for e in 0..experts {
            probs[first + e] = settled(mul(settled(probs[first + e]), factor, zero));
        }
    }
    settled(add(top, ln(sum, zero), zero))
}

/// What an expert is chosen by.
#[cube]
fn key(
    logits: &[f32],
    probs: &[f32],
    bias: &ComptimeOption<&[f32]>,
    first: usize,
    expert: usize,
    zero: u32,
) -> f32 {
    #[comptime]
    match bias {
        ComptimeOption::Some(bias) => {
            add(settled(probs[first + expert]), settled(bias[expert]), zero)
        }
        ComptimeOption::None => settled(logits[first + expert]),
    }
}

/// The logarithm of a score's numerator.
#[cube]
fn log_score(logit: f32, zero: u32, #[comptime] score: Score) -> f32 {
    if comptime!(score == Score::Sigmoid) {
        let low = select(logit < 0.0f32, logit, 0.0f32);
        let magnitude = f32::reinterpret(u32::reinterpret(logit) | 0x8000_0000u32);
        let other = ln(add(1.0f32, exp(magnitude, zero), zero), zero);
        settled(sub(low, other, zero))
    } else {
        logit
    }
}

/// Turns the logarithms of a token's scores into shares of their sum, times `scale`.
#[cube]
fn renormalize(weights: &mut [f32], begin: usize, end: usize, scale: f32, zero: u32) {
    let mut top = f32::min_value();
    for slot in begin..end {
        top = most(top, weights[slot]);
    }
    let mut sum = 0.0f32;
    for slot in begin..end {
        let share = exp(sub(weights[slot], top, zero), zero);
        weights[slot] = share;
        sum = add(sum, share, zero);
    }
    let factor = reciprocal(sum, zero);
    for slot in begin..end {
        let share = mul(settled(weights[slot]), factor, zero);
        weights[slot] = settled(mul(scale, share, zero));
    }
}

#[cube(launch_unchecked)]
fn exact_route(
    logits: &[f32],
    bias: ComptimeOption<&[f32]>,
    indices: &mut [u32],
    weights: &mut [f32],
    probs: &mut [f32],
    lse: &mut [f32],
    experts: usize,
    top_k: usize,
    scale: f32,
    zero: u32,
    #[comptime] spec: Spec,
) {
    if ABSOLUTE_POS < lse.len() {
        let first = ABSOLUTE_POS * experts;
        let begin = ABSOLUTE_POS * top_k;
        lse[ABSOLUTE_POS] = write_probs(logits, probs, first, experts, zero, spec.score);
        for k in 0..top_k {
            let mut chosen = experts;
            let mut best = 0.0f32;
            for e in 0..experts {
                let mut taken = 0u32;
                for before in 0..k {
                    taken += select(indices[begin + before] == e as u32, 1u32, 0u32);
                }
                let own = key(logits, &*probs, &bias, first, e, zero);
                if taken == 0u32 && (chosen == experts || own > best) {
                    chosen = e;
                    best = own;
                }
            }
            indices[begin + k] = chosen as u32;
            if comptime!(spec.renormalize) {
                let logit = settled(logits[first + chosen]);
                weights[begin + k] = log_score(logit, zero, spec.score);
            } else {
                let prob = settled(probs[first + chosen]);
                weights[begin + k] = settled(mul(scale, prob, zero));
            }
        }
        if comptime!(spec.renormalize) {
            renormalize(weights, begin, begin + top_k, scale, zero);
        }
    }
}

buffers! {
    /// Buffers of a choice.
    pub struct RouteBuffers {
        pub logits: Handle => "[T, E]" read,
        pub bias: Option<Handle> => "[E]" read,
        pub indices: Handle => "[T, K] u32" written,
        pub weights: Handle => "[T, K]" written,
        pub probs: Handle => "[T, E]" written,
        pub lse: Handle => "[T]" written,
    }
}

pub(crate) fn name(p: &Problem, biased: bool) -> String {
    let score = format!("{:?}", p.score()).to_lowercase();
    let raw = launched::suffix(!p.renormalize(), "_raw");
    let biased = launched::suffix(biased, "_bias");
    format!("exact_route_{score}{raw}{biased}")
}

/// Enqueues a choice: one launch.
pub fn launch_route(client: &Client, grid: &Grid, p: &Problem, b: RouteBuffers) {
    launched::note(|| name(p, b.bias.is_some()));
    let (logits, bias) = (bind(b.logits), b.bias.map(bind).into());
    let [indices, weights, probs, lse] = [b.indices, b.weights, b.probs, b.lse].map(bind);
    let (count, dim, scale) = (grid.count(), grid.dim(), p.scale());
    let (experts, top_k) = (p.experts(), p.top_k());
    let spec = Spec {
        score: p.score(),
        renormalize: p.renormalize(),
    };
    // SAFETY: the buffers are as long as they are described; units past the last token return. There are at least as many experts as
    // choices, so that each choice finds one.
    unsafe {
        exact_route::launch_unchecked(
            client, count, dim, logits, bias, indices, weights, probs, lse, experts, top_k, scale,
            0, spec,
        );
    }
}
