//! How CubeCL computes [`moebius_ops::routing::topk_backward_reference`].

use super::selection::{lane_indices, masked};
use super::topk::sigmoid;
use super::{Problem, Score};
use crate::prelude::*;
use crate::rounds::{fits_rounds, looped};
use cubecl::prelude::*;
use moebius_ops::routing::TopkGradient;

/// The gradient of the logits through one output of the choice, planned for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopkBackwardPlan {
    problem: Problem,
    of: TopkGradient,
    lanes: usize,
    grid: Grid,
}

/// Plans the gradient of the logits: one unit per token, or per vector of experts of a token.
///
/// # Errors
/// [`Unsupported`] when the logits exceed one binding or the cubes one grid.
pub fn plan_topk_backward(
    problem: Problem,
    of: TopkGradient,
    device: &Capability,
) -> Result<TopkBackwardPlan, Unsupported> {
    let bytes = problem.tokens() * problem.experts() * 4;
    crate::fits_binding("route_backward", bytes, device)?;
    let lanes = lanes(problem.experts(), 4, device);
    let rounds = match of {
        TopkGradient::Probs => 2 * looped(problem.experts() / lanes, 0),
        TopkGradient::Weights => looped(problem.top_k(), 0),
        TopkGradient::Lse => 0,
    };
    fits_rounds("route_backward", rounds, device)?;
    let units = match of {
        TopkGradient::Probs => problem.tokens(),
        TopkGradient::Weights | TopkGradient::Lse => problem.tokens() * (problem.experts() / lanes),
    };
    Ok(TopkBackwardPlan {
        problem,
        of,
        lanes,
        grid: Grid::elementwise("route_backward", units, device)?,
    })
}

/// σ'(x) = σ(x)·σ(−x), without cancellation.
#[cube]
fn sigmoid_slope<N: Size>(x: Vector<f32, N>) -> Vector<f32, N> {
    let one = Vector::<f32, N>::new(1.0f32);
    let small = (-x.abs()).exp();
    small / ((one + small) * (one + small))
}

/// `values`, with 0 where the probability is 0.
#[cube]
fn where_possible<N: Size>(probs: Vector<f32, N>, values: Vector<f32, N>) -> Vector<f32, N> {
    let zero = Vector::<f32, N>::new(0.0f32);
    select_many(probs.equal(&zero), zero, values)
}

/// Computes dlogits through the weights; one unit per vector. `inverse` is 1 / scale.
#[cube(launch_unchecked)]
fn route_backward_weights<N: Size>(
    logits: &[Vector<f32, N>],
    probs: &[Vector<f32, N>],
    indices: &[u32],
    weights: &[f32],
    dweights: &[f32],
    dlogits: &mut [Vector<f32, N>],
    row: usize,
    top_k: usize,
    scale: f32,
    inverse: f32,
    #[comptime] score: Score,
    #[comptime] renormalize: bool,
) {
    if ABSOLUTE_POS < dlogits.len() {
        let slot = ABSOLUTE_POS / row * top_k;
        let first = ABSOLUTE_POS % row * N::value();
        let zero = Vector::<f32, N>::new(0.0f32);
        let expert = lane_indices::<N>() + Vector::new(first as u32);
        let mut dot = 0.0f32;
        let mut weight = zero;
        let mut gradient = zero;
        for k in 0..top_k {
            let chosen = indices[slot + k];
            if chosen < (row * N::value()) as u32 {
                let here = expert.equal(&Vector::new(chosen));
                let (w, d) = (weights[slot + k], dweights[slot + k]);
                dot = fma(w, d, dot);
                weight = select_many(here, Vector::new(w), weight);
                gradient = select_many(here, Vector::new(d), gradient);
            }
        }
        let logit = logits[ABSOLUTE_POS];
        dlogits[ABSOLUTE_POS] = if comptime!(renormalize) {
            let centred = gradient - Vector::new(dot * inverse);
            let slope = if comptime!(score == Score::Sigmoid) {
                weight * sigmoid::<N>(-logit)
            } else {
                weight
            };
            where_possible::<N>(weight, slope * centred)
        } else if comptime!(score == Score::Softmax) {
            let p = probs[ABSOLUTE_POS];
            where_possible::<N>(p, p * (Vector::new(scale) * gradient - Vector::new(dot)))
        } else {
            let slope = Vector::new(scale) * sigmoid_slope::<N>(logit);
            where_possible::<N>(gradient, slope * gradient)
        };
    }
}

/// Computes dlogits through the probabilities; one unit per token.
#[cube(launch_unchecked)]
fn route_backward_probs<N: Size>(
    logits: &[Vector<f32, N>],
    probs: &[Vector<f32, N>],
    dprobs: &[Vector<f32, N>],
    dlogits: &mut [Vector<f32, N>],
    tokens: usize,
    row: usize,
    #[comptime] score: Score,
) {
    if ABSOLUTE_POS < tokens {
        let first = ABSOLUTE_POS * row;
        if comptime!(score == Score::Softmax) {
            let mut lanes = Vector::<f32, N>::new(0.0f32);
            for i in first..first + row {
                lanes += where_possible::<N>(probs[i], probs[i] * dprobs[i]);
            }
            let dot = Vector::<f32, N>::new(lanes.vector_sum());
            for i in first..first + row {
                dlogits[i] = where_possible::<N>(probs[i], probs[i] * (dprobs[i] - dot));
            }
        } else {
            for i in first..first + row {
                let slope = sigmoid_slope::<N>(logits[i]);
                dlogits[i] = where_possible::<N>(probs[i], slope * dprobs[i]);
            }
        }
    }
}

/// Computes dlogits through the logsumexp; one unit per vector.
#[cube(launch_unchecked)]
fn route_backward_lse<N: Size>(
    logits: &[Vector<f32, N>],
    mask: ComptimeOption<&[Vector<u32, N>]>,
    lse: &[f32],
    dlse: &[f32],
    dlogits: &mut [Vector<f32, N>],
    row: usize,
) {
    if ABSOLUTE_POS < dlogits.len() {
        let token = ABSOLUTE_POS / row;
        let p = (logits[ABSOLUTE_POS] - Vector::new(lse[token])).exp();
        dlogits[ABSOLUTE_POS] = masked::<f32, N>(
            &mask,
            ABSOLUTE_POS % row,
            p * Vector::new(dlse[token]),
            Vector::new(0.0f32),
        );
    }
}

buffers! {
    /// Buffers of the gradient: operands and results of the choice, the given gradient, and dlogits. A plan reads only the
    /// buffers that its formula needs.
    pub struct TopkBackwardBuffers {
        pub logits: Handle => "[T,E]" read,
        pub mask: Option<Handle> => "[E] u32" read,
        pub indices: Handle => "[T,K] u32" read,
        pub weights: Handle => "[T,K]" read,
        pub probs: Handle => "[T,E]" read,
        pub lse: Handle => "[T]" read,
        pub gradient: Handle = "dweights" | "dprobs" | "dlse" => "[T,K], [T,E] or [T]" read,
        pub dlogits: Handle => "[T,E]" written,
    }
}

/// Enqueues the gradient of the logits: one launch.
pub fn launch_topk_backward(
    client: &Client,
    plan: &TopkBackwardPlan,
    buffers: TopkBackwardBuffers,
) {
    let (p, lanes) = (&plan.problem, plan.lanes);
    let (tokens, row, score) = (p.tokens(), p.experts() / lanes, p.score());
    if tokens == 0 {
        return;
    }
    let (count, dim) = (plan.grid.count(), plan.grid.dim());
    let [logits, d, dlogits] = [buffers.logits, buffers.gradient, buffers.dlogits].map(bind);
    // SAFETY: the buffers are as long as they are described; units past the last token or vector return.
    unsafe {
        match plan.of {
            TopkGradient::Weights => {
                let choice = [buffers.probs, buffers.indices, buffers.weights];
                let [probs, indices, weights] = choice.map(bind);
                let (top_k, scale) = (p.top_k(), p.scale());
                // With a scale of 0 all weights are 0 and the gradient is 0, rather than 0 / 0.
                let inverse = if scale == 0.0 { 0.0 } else { scale.recip() };
                let renormed = p.renormalize();
                launched::note(|| format!("route_backward_weights_{}", super::topk::score_name(p)));
                route_backward_weights::launch_unchecked(
                    client, count, dim, lanes, logits, probs, indices, weights, d, dlogits, row,
                    top_k, scale, inverse, score, renormed,
                );
            }
            TopkGradient::Probs => {
                let probs = bind(buffers.probs);
                launched::note(|| format!("route_backward_probs_{score:?}").to_lowercase());
                route_backward_probs::launch_unchecked(
                    client, count, dim, lanes, logits, probs, d, dlogits, tokens, row, score,
                );
            }
            TopkGradient::Lse => {
                let masked = launched::suffix(buffers.mask.is_some(), "_masked");
                launched::note(|| format!("route_backward_lse{masked}"));
                let (mask, lse) = (buffers.mask.map(bind).into(), bind(buffers.lse));
                route_backward_lse::launch_unchecked(
                    client, count, dim, lanes, logits, mask, lse, d, dlogits, row,
                );
            }
        }
    }
}
