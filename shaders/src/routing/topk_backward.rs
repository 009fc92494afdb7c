//! Gradients of the logits, from that of the weights, the probabilities or the logsumexp.
//!
//! The chosen indices are constants; mask, bias and groups only decide which they are. With
//! u = w / scale, and d the incoming gradient,
//!
//! | of | softmax | sigmoid |
//! |---|---|---|
//! | weights, raw | p_e · (scale·d_e − Σ_k d_k·w_k), d_e = 0 unless chosen | scale · d_e · σ'(l_e) |
//! | weights, renormalised | w_e · (d_e − Σ_k d_k·u_k) for the chosen | the same · σ(−l_e) |
//! | probs | p_e · (d_e − Σ_j d_j·p_j) | d_e · σ'(l_e) |
//! | lse | d · exp(l_e − lse) | the same |
//!
//! Shapes: dlogits \[T,E\], d \[T,K\], \[T,E\] or \[T\], all f32. What is masked, or has probability 0 where
//! the formula has p as a factor, gets 0 whatever the incoming gradient. Sums run over k in order,
//! or over e lane by lane and then over the lanes.
//!
//! FLOPs: T·E·(K + 4) at most. Bytes: 4·T·(3·E + 3·K) at most.

use super::selection::{lane_indices, masked};
use super::topk::sigmoid;
use super::{Problem, Routed, Score};
#[cfg(feature = "emit")]
use crate::emit::{Machine, Planned};
use crate::error::Unsupported;
use crate::grid::{Grid, lanes};
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::Capability;

/// Which output of the choice the incoming gradient is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopkGradient {
    /// Weights \[T,K\].
    Weights,
    /// Probabilities \[T,E\].
    Probs,
    /// Logsumexp \[T\].
    Lse,
}

/// A gradient this device can compute.
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
    crate::fits_binding(
        "route_backward",
        problem.tokens * problem.experts * 4,
        device,
    )?;
    let lanes = lanes(problem.experts, 4, device);
    let units = match of {
        TopkGradient::Probs => problem.tokens,
        TopkGradient::Weights | TopkGradient::Lse => problem.tokens * (problem.experts / lanes),
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

/// `values`, 0 where the probability is 0.
#[cube]
fn where_possible<N: Size>(probs: Vector<f32, N>, values: Vector<f32, N>) -> Vector<f32, N> {
    let zero = Vector::<f32, N>::new(0.0f32);
    select_many(probs.equal(&zero), zero, values)
}

/// One unit per vector of dlogits; `inverse` is 1 / scale.
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

/// One unit per token.
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

/// One unit per vector of dlogits.
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

/// Buffers of a gradient: what the choice read and wrote, and both gradients. A plan reads those
/// its formula names.
#[derive(Clone)]
pub struct TopkBackwardBuffers {
    /// \[T,E\], read.
    pub logits: Handle,
    /// \[E\] u32, read.
    pub mask: Option<Handle>,
    /// \[T,K\] u32, read.
    pub indices: Handle,
    /// \[T,K\], read.
    pub weights: Handle,
    /// \[T,E\], read.
    pub probs: Handle,
    /// \[T\], read.
    pub lse: Handle,
    /// \[T,K\], \[T,E\] or \[T\], read.
    pub gradient: Handle,
    /// \[T,E\], written.
    pub dlogits: Handle,
}

/// Enqueues the gradient of the logits: one launch.
pub fn launch_topk_backward(
    client: &Client,
    plan: &TopkBackwardPlan,
    buffers: TopkBackwardBuffers,
) {
    if plan.problem.tokens == 0 {
        return;
    }
    match plan.of {
        TopkGradient::Weights => launch_weights(client, plan, buffers),
        TopkGradient::Probs => launch_probs(client, plan, buffers),
        TopkGradient::Lse => launch_lse(client, plan, buffers),
    }
}

fn launch_weights(client: &Client, plan: &TopkBackwardPlan, buffers: TopkBackwardBuffers) {
    let problem = &plan.problem;
    let row = problem.experts / plan.lanes;
    // Weights that are all 0 have no gradient, rather than 0 / 0.
    let inverse = if problem.scale == 0.0 {
        0.0
    } else {
        problem.scale.recip()
    };
    // SAFETY: the caller's buffers have the planned shapes; units past the last vector return.
    unsafe {
        route_backward_weights::launch_unchecked(
            client,
            plan.grid.count(),
            plan.grid.dim(),
            plan.lanes,
            BufferArg::from_raw_parts(buffers.logits, problem.tokens * row),
            BufferArg::from_raw_parts(buffers.probs, problem.tokens * row),
            BufferArg::from_raw_parts(buffers.indices, problem.slots()),
            BufferArg::from_raw_parts(buffers.weights, problem.slots()),
            BufferArg::from_raw_parts(buffers.gradient, problem.slots()),
            BufferArg::from_raw_parts(buffers.dlogits, problem.tokens * row),
            row,
            problem.top_k,
            problem.scale,
            inverse,
            problem.score,
            problem.renormalize,
        );
    }
}

fn launch_probs(client: &Client, plan: &TopkBackwardPlan, buffers: TopkBackwardBuffers) {
    let problem = &plan.problem;
    let row = problem.experts / plan.lanes;
    // SAFETY: the caller's buffers have the planned shapes; units past the last token return.
    unsafe {
        route_backward_probs::launch_unchecked(
            client,
            plan.grid.count(),
            plan.grid.dim(),
            plan.lanes,
            BufferArg::from_raw_parts(buffers.logits, problem.tokens * row),
            BufferArg::from_raw_parts(buffers.probs, problem.tokens * row),
            BufferArg::from_raw_parts(buffers.gradient, problem.tokens * row),
            BufferArg::from_raw_parts(buffers.dlogits, problem.tokens * row),
            problem.tokens,
            row,
            problem.score,
        );
    }
}

fn launch_lse(client: &Client, plan: &TopkBackwardPlan, buffers: TopkBackwardBuffers) {
    let problem = &plan.problem;
    let row = problem.experts / plan.lanes;
    // SAFETY: the caller's buffers have the planned shapes; units past the last vector return.
    unsafe {
        let mask = buffers
            .mask
            .map(|mask| BufferArg::from_raw_parts(mask, row));
        route_backward_lse::launch_unchecked(
            client,
            plan.grid.count(),
            plan.grid.dim(),
            plan.lanes,
            BufferArg::from_raw_parts(buffers.logits, problem.tokens * row),
            mask.into(),
            BufferArg::from_raw_parts(buffers.lse, problem.tokens),
            BufferArg::from_raw_parts(buffers.gradient, problem.tokens),
            BufferArg::from_raw_parts(buffers.dlogits, problem.tokens * row),
            row,
        );
    }
}

/// The oracle: dlogits \[T,E\] of `logits`, which were `routed`, for an incoming `gradient`, in f64.
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

/// The gradient of values that are `share`s of a sum that doesn't change.
fn through_shares(share: &[f64], d: &[f64]) -> Vec<f64> {
    let dot: f64 = share.iter().zip(d).map(|(share, d)| share * d).sum();
    let each = share.iter().zip(d).map(|(share, d)| share * (d - dot));
    each.collect()
}

/// From the gradient of every score to that of the logits.
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

/// From the gradients of the weights of some experts to those of the logits.
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
    let largest = chosen
        .iter()
        .map(|(e, _)| logits[*e])
        .fold(f32::MIN, f32::max);
    let part = |(e, _): &(usize, f64)| match problem.score {
        Score::Softmax => f64::from(logits[*e] - largest).exp(),
        Score::Sigmoid => sigmoid_host(logits[*e]),
    };
    let parts: Vec<f64> = chosen.iter().map(part).collect();
    let sum: f64 = parts.iter().sum();
    let share: Vec<f64> = parts.iter().map(|part| part / sum).collect();
    let d: Vec<f64> = chosen.iter().map(|(_, d)| scale * d).collect();
    for ((e, _), d) in chosen.iter().zip(through_shares(&share, &d)) {
        row[*e] = match problem.score {
            Score::Softmax => d,
            // ln σ grows with the logit by σ(−l).
            Score::Sigmoid => d * sigmoid_host(-logits[*e]),
        };
    }
    row
}

fn sigmoid_host(logit: f32) -> f64 {
    1.0 / (1.0 + (-f64::from(logit)).exp())
}

/// Every formula, and the logsumexp under a mask.
#[cfg(feature = "emit")]
pub(super) fn entries() -> Vec<crate::emit::KernelEntry> {
    use crate::emit::{KernelEntry, buffer};
    let scores = [("softmax", Score::Softmax), ("sigmoid", Score::Sigmoid)];
    let mut kernels: Vec<(String, TopkGradient, Kernel)> = Vec::new();
    for (name, score) in scores {
        for (suffix, renormalize) in [("", true), ("_raw", false)] {
            let kernel = move |at: &Machine, plan: &TopkBackwardPlan| -> Box<dyn CubeKernel> {
                let (settings, device, target) = at.parts(plan.grid.dim());
                let [a, b, c, d, e, f] = [(); 6].map(|()| buffer());
                Box::new(route_backward_weights::RouteBackwardWeights::new(
                    settings,
                    device,
                    target,
                    a,
                    b,
                    c,
                    d,
                    e,
                    f,
                    (),
                    (),
                    (),
                    (),
                    plan.lanes,
                    score,
                    renormalize,
                ))
            };
            let name = format!("route_backward_weights_{name}{suffix}");
            kernels.push((name, TopkGradient::Weights, Box::new(kernel)));
        }
        let kernel = move |at: &Machine, plan: &TopkBackwardPlan| -> Box<dyn CubeKernel> {
            let (settings, device, target) = at.parts(plan.grid.dim());
            let [a, b, c, d] = [(); 4].map(|()| buffer());
            Box::new(route_backward_probs::RouteBackwardProbs::new(
                settings,
                device,
                target,
                a,
                b,
                c,
                d,
                (),
                (),
                plan.lanes,
                score,
            ))
        };
        let name = format!("route_backward_probs_{name}");
        kernels.push((name, TopkGradient::Probs, Box::new(kernel)));
    }
    for (suffix, masked) in [("", false), ("_masked", true)] {
        let kernel = move |at: &Machine, plan: &TopkBackwardPlan| -> Box<dyn CubeKernel> {
            let (settings, device, target) = at.parts(plan.grid.dim());
            let [a, c, d, e] = [(); 4].map(|()| buffer());
            let mask = super::optional_argument(masked);
            Box::new(route_backward_lse::RouteBackwardLse::new(
                settings,
                device,
                target,
                a,
                mask,
                c,
                d,
                e,
                (),
                plan.lanes,
            ))
        };
        kernels.push((
            format!("route_backward_lse{suffix}"),
            TopkGradient::Lse,
            Box::new(kernel),
        ));
    }
    let entry = |(name, of, kernel): (String, TopkGradient, Kernel)| {
        let build = move |at: &Machine| -> Planned {
            let plan = plan_topk_backward(Problem::new(1024, 8, 2)?, of, &at.capability)?;
            Ok(kernel(at, &plan))
        };
        KernelEntry::new(("routing", "top-k backward"), name, build)
    };
    kernels.into_iter().map(entry).collect()
}

/// Builds a kernel for a machine.
#[cfg(feature = "emit")]
type Kernel = Box<dyn Fn(&Machine, &TopkBackwardPlan) -> Box<dyn CubeKernel> + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::{Groups, reference_with_bias};

    const EXPERTS: usize = 8;
    const TOP_K: usize = 3;
    /// Exact in f32 beside the logits, and too small to change a choice.
    const STEP: f32 = 1.0 / 256.0;

    /// Two tokens whose logits are at least 1/16 apart.
    fn logits() -> Vec<f32> {
        let order = [3, 9, 14, 1, 7, 12, 5, 10, 2, 13, 6, 15, 0, 4, 11, 8];
        order.map(|i| i as f32 / 8.0 - 1.0).to_vec()
    }

    /// The forward's output that `of` names.
    fn output(of: TopkGradient, routed: &Routed) -> &[f64] {
        match of {
            TopkGradient::Weights => &routed.weights,
            TopkGradient::Probs => &routed.probs,
            TopkGradient::Lse => &routed.lse,
        }
    }

    fn check(problem: &Problem, mask: Option<&[bool]>, bias: Option<&[f32]>) {
        let logits = logits();
        let routed = reference_with_bias(problem, &logits, mask, bias);
        for of in [
            TopkGradient::Weights,
            TopkGradient::Probs,
            TopkGradient::Lse,
        ] {
            let outputs = output(of, &routed).len();
            let gradient: Vec<f64> = (0..outputs).map(|i| (i as f64 * 0.7).sin()).collect();
            let loss = |logits: &[f32]| -> f64 {
                let routed = reference_with_bias(problem, logits, mask, bias);
                let terms = output(of, &routed).iter().zip(&gradient);
                terms.map(|(value, d)| value * d).sum()
            };
            let got = topk_backward_reference(problem, of, &logits, mask, &routed, &gradient);
            for (i, got) in got.iter().enumerate() {
                let mut moved = logits.clone();
                moved[i] += STEP;
                let up = loss(&moved);
                moved[i] -= 2.0 * STEP;
                let want = (up - loss(&moved)) / (2.0 * f64::from(STEP));
                // The central difference errs by STEP²/6 of the third derivative.
                assert!(
                    (got - want).abs() < 1e-5,
                    "{problem:?} {of:?} {i}: {got} {want}"
                );
            }
        }
    }

    #[test]
    fn reference_agrees_with_finite_differences() {
        let mask: Vec<bool> = (0..EXPERTS).map(|e| e != 1 && e != 4).collect();
        let bias: Vec<f32> = (0..EXPERTS).map(|e| (e % 3) as f32 / 4.0).collect();
        let groups = Groups {
            count: 4,
            chosen: 2,
        };
        for score in [Score::Softmax, Score::Sigmoid] {
            for renormalize in [true, false] {
                let problem = Problem::new(2, EXPERTS, TOP_K)
                    .unwrap()
                    .with_score(score, renormalize);
                check(&problem, None, None);
                let problem = problem.with_scale(2.5).unwrap();
                check(&problem, Some(&mask), None);
                check(&problem, None, Some(&bias));
                let problem = problem.with_groups(Some(groups)).unwrap();
                check(&problem, Some(&mask), Some(&bias));
            }
        }
    }
}
