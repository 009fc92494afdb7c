//! How CubeCL computes [`moebius_ops::routing::reference_with_bias`].
//!
//! Keys are compared as integers that order like the floats, so no fast-math mode can change a choice.
//!
//! FLOPs: about T·E·(K+4) compares and exponentials. Bytes: 4·T·(2E + 2K + 1).

use super::selection::{Search, exp_or_nan, logsumexp, masked, next_best, open_groups};
use super::{Groups, Problem, Score};
use crate::prelude::*;
use cubecl::prelude::*;

/// A [`Problem`], planned for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    problem: Problem,
    lanes: usize,
    grid: Grid,
}

/// Plans the choice: one unit per token.
///
/// # Errors
/// [`Unsupported`] when the logits exceed one binding or the cubes one grid.
pub fn plan(problem: Problem, device: &Capability) -> Result<Plan, Unsupported> {
    crate::fits_binding("route", problem.tokens() * problem.experts() * 4, device)?;
    let groups = problem.groups().map_or(1, |groups| groups.count);
    Ok(Plan {
        problem,
        // Each group is a whole number of vectors.
        lanes: lanes(problem.experts() / groups, 4, device),
        grid: Grid::elementwise("route", problem.tokens(), device)?,
    })
}

/// Compile-time parameters of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spec {
    score: Score,
    renormalize: bool,
    groups: Option<Groups>,
}

/// The logarithm of the score's numerator: a softmax over these gives the renormalised scores without overflow.
#[cube]
fn log_score(logit: f32, #[comptime] score: Score) -> f32 {
    if comptime!(score == Score::Sigmoid) {
        min(logit, 0.0f32) - (1.0f32 + (-logit.abs()).exp()).ln()
    } else {
        logit
    }
}

/// 1 / (1 + exp(−x)), by an exponential that can't overflow.
#[cube]
pub(super) fn sigmoid<N: Size>(x: Vector<f32, N>) -> Vector<f32, N> {
    let one = Vector::<f32, N>::new(1.0f32);
    let small = exp_or_nan::<N>(-x.abs());
    let negative = x.less_than(&Vector::new(0.0f32));
    select_many(negative, small, one) / (one + small)
}

/// Writes the scores of one token; returns its logsumexp.
#[cube]
fn write_probs<N: Size>(
    logits: &[Vector<f32, N>],
    mask: &ComptimeOption<&[Vector<u32, N>]>,
    probs: &mut [Vector<f32, N>],
    first: usize,
    row: usize,
    #[comptime] score: Score,
) -> f32 {
    let zero = Vector::<f32, N>::new(0.0f32);
    let lowest = Vector::<f32, N>::min_value();
    let mut lanes = lowest;
    for i in 0..row {
        lanes = max(lanes, masked::<f32, N>(mask, i, logits[first + i], lowest));
    }
    let mut largest = lanes.extract(0usize);
    #[unroll]
    for lane in 1..N::value() {
        largest = max(largest, lanes.extract(lane));
    }
    let mut sums = zero;
    for i in 0..row {
        let logit = logits[first + i];
        let exp = exp_or_nan::<N>(logit - Vector::new(largest));
        let exp = masked::<f32, N>(mask, i, exp, zero);
        sums += exp;
        probs[first + i] = if comptime!(score == Score::Sigmoid) {
            masked::<f32, N>(mask, i, sigmoid::<N>(logit), zero)
        } else {
            exp
        };
    }
    let sum = sums.vector_sum();
    if comptime!(score == Score::Softmax) {
        for i in 0..row {
            // Without an available expert the quotient would be 0 / 0 = NaN.
            let p = probs[first + i] / Vector::new(sum);
            probs[first + i] = masked::<f32, N>(mask, i, p, zero);
        }
    }
    logsumexp(largest, sum)
}

/// Chooses the experts of a token; one unit per token.
///
/// Each round takes the best expert after the previous one in the order (key descending, index ascending), so no list of taken
/// experts is needed.
#[cube(launch_unchecked)]
fn route_topk<N: Size>(
    logits: &[Vector<f32, N>],
    mask: ComptimeOption<&[Vector<u32, N>]>,
    bias: ComptimeOption<&[Vector<f32, N>]>,
    indices: &mut [u32],
    weights: &mut [f32],
    probs: &mut [Vector<f32, N>],
    lse: &mut [f32],
    tokens: usize,
    row: usize,
    top_k: usize,
    scale: f32,
    #[comptime] spec: Spec,
) {
    if ABSOLUTE_POS < tokens {
        let first = ABSOLUTE_POS * row;
        let slot = ABSOLUTE_POS * top_k;
        lse[ABSOLUTE_POS] = write_probs::<N>(logits, &mask, probs, first, row, spec.score);
        let groups = comptime!(spec.groups.map_or(1, |groups| groups.count));
        let open = match comptime!(spec.groups) {
            Some(groups) => open_groups::<N>(&*probs, &mask, &bias, first, row, groups),
            None => Array::<u32>::new(1usize),
        };
        let mut last_key = u32::MAX.runtime();
        let mut last_expert = 0u32;
        for k in 0..top_k {
            let at = Search {
                first,
                row,
                last_key,
                last_expert,
            };
            let (key, expert) = if comptime!(bias.is_some()) {
                next_best::<N>(&*probs, &mask, &bias, &open, &at, groups)
            } else {
                next_best::<N>(logits, &mask, &bias, &open, &at, groups)
            };
            if key > 0 {
                last_key = key;
                last_expert = expert;
                let vector = first + expert as usize / N::value();
                let lane = expert as usize % N::value();
                indices[slot + k] = expert;
                weights[slot + k] = if comptime!(spec.renormalize) {
                    log_score(logits[vector].extract_dynamic(lane), spec.score)
                } else {
                    scale * probs[vector].extract_dynamic(lane)
                };
            } else {
                indices[slot + k] = (row * N::value()) as u32;
                weights[slot + k] = 0.0;
            }
        }
        if comptime!(spec.renormalize) {
            let experts = (row * N::value()) as u32;
            renormalize(&*indices, weights, slot, slot + top_k, experts, scale);
        }
    }
}

/// Turns logarithms of scores into the scores' shares of their sum, times `scale`.
#[cube]
fn renormalize(
    indices: &[u32],
    weights: &mut [f32],
    begin: usize,
    end: usize,
    experts: u32,
    scale: f32,
) {
    // The best expert has the largest logarithm, unless a bias chose it.
    let mut largest = weights[begin];
    for slot in begin + 1..end {
        if indices[slot] < experts {
            largest = max(largest, weights[slot]);
        }
    }
    let mut sum = 0.0f32;
    for slot in begin..end {
        if indices[slot] < experts {
            let share = (weights[slot] - largest).exp();
            weights[slot] = share;
            sum += share;
        }
    }
    for slot in begin..end {
        if indices[slot] < experts {
            weights[slot] = scale * (weights[slot] / sum);
        }
    }
}

buffers! {
    /// Buffers of the choice; shapes as in the module's contract, `mask` u32 \[E\], non-zero = available.
    pub struct RouteBuffers {
        pub logits: Handle => "[T,E] f32" read,
        pub mask: Option<Handle> => "[E] u32" read,
        pub bias: Option<Handle> => "[E] f32" read: "added to the scores in the comparison only",
        pub indices: Handle => "[T,K] u32" written,
        pub weights: Handle => "[T,K] f32" written,
        pub probs: Handle => "[T,E] f32" written,
        pub lse: Handle => "[T] f32" written,
    }
}

pub(super) fn name(problem: &Problem, masked: bool, biased: bool) -> String {
    let score = score_name(problem);
    let biased = launched::suffix(biased, "_bias");
    let groups = launched::suffix(problem.groups().is_some(), "_groups");
    let masked = launched::suffix(masked, "_masked");
    format!("route_topk_{score}{biased}{groups}{masked}")
}

/// The part of a kernel's name for the score, and for whether weights are renormalised.
pub(super) fn score_name(problem: &Problem) -> String {
    let score = format!("{:?}", problem.score()).to_lowercase();
    format!(
        "{score}{}",
        launched::suffix(!problem.renormalize(), "_raw")
    )
}

/// Enqueues the choice of experts.
pub fn launch(client: &Client, plan: &Plan, buffers: RouteBuffers) {
    let (problem, lanes, grid) = (&plan.problem, plan.lanes, plan.grid);
    if problem.tokens() == 0 {
        return;
    }
    let spec = Spec {
        score: problem.score(),
        renormalize: problem.renormalize(),
        groups: problem.groups(),
    };
    launched::note(|| name(problem, buffers.mask.is_some(), buffers.bias.is_some()));
    let (count, dim) = (grid.count(), grid.dim());
    let (mask, bias) = (buffers.mask.map(bind).into(), buffers.bias.map(bind).into());
    let [logits, indices, weights] = [buffers.logits, buffers.indices, buffers.weights].map(bind);
    let [probs, lse] = [buffers.probs, buffers.lse].map(bind);
    let (tokens, row) = (problem.tokens(), problem.experts() / lanes);
    let (top_k, scale) = (problem.top_k(), problem.scale());
    // SAFETY: the buffers are as long as they are described; units past the last token return.
    unsafe {
        route_topk::launch_unchecked(
            client, count, dim, lanes, logits, mask, bias, indices, weights, probs, lse, tokens,
            row, top_k, scale, spec,
        );
    }
}
