//! The choice of experts: the K largest keys of every token, ties to the lowest index.
//!
//! score = softmax or sigmoid of the logits. Without a bias the key is the logit, which both scores
//! grow with; with one it is score + bias (DeepSeek-V3), and the weights still come from the score
//! alone: the chosen scores, divided by their sum where the problem renormalises, times its scale.
//! With [`Groups`](super::Groups) only the experts of the groups with the largest sum of their two
//! best keys (score + bias; one key where a group has no second) can be chosen, ties to the lowest
//! group. lse = ln Σ exp(l) over the available experts, −∞ without any.
//!
//! Keys are compared as integers that order like the floats, so no fast-math mode can change a
//! choice. A NaN key ranks below every number. A NaN logit makes the softmax and lse of its token
//! NaN, and the renormalised weights too if it is chosen.
//!
//! FLOPs: about T·E·(K+4) compares and exponentials. Bytes: 4·T·(2E + 2K + 1).

use super::selection::{masked, next_best, open_groups};
use super::{Groups, Problem, Score};
use crate::error::Unsupported;
use crate::grid::{Grid, lanes};
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::Capability;
use std::cmp::Ordering;

/// A [`Problem`] this device can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    problem: Problem,
    lanes: usize,
    grid: Grid,
}

impl Plan {
    fn spec(&self) -> Spec {
        Spec {
            score: self.problem.score,
            renormalize: self.problem.renormalize,
            groups: self.problem.groups,
        }
    }
}

/// Plans the choice: one unit per token.
///
/// # Errors
/// [`Unsupported`] when the logits exceed one binding or the cubes one grid.
pub fn plan(problem: Problem, device: &Capability) -> Result<Plan, Unsupported> {
    crate::fits_binding("route", problem.tokens * problem.experts * 4, device)?;
    let groups = problem.groups.map_or(1, |groups| groups.count);
    Ok(Plan {
        problem,
        // A group is a whole number of vectors.
        lanes: lanes(problem.experts / groups, 4, device),
        grid: Grid::elementwise("route", problem.tokens, device)?,
    })
}

/// What the kernel is specialised on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spec {
    score: Score,
    renormalize: bool,
    groups: Option<Groups>,
}

/// ln of the score's numerator: softmax over these is the renormalised score, without overflow.
#[cube]
fn log_score(logit: f32, #[comptime] score: Score) -> f32 {
    if comptime!(score == Score::Sigmoid) {
        min(logit, 0.0f32) - (1.0f32 + (-logit.abs()).exp()).ln()
    } else {
        logit
    }
}

/// 1 / (1 + exp(−x)) without an exponential that can overflow.
#[cube]
pub(super) fn sigmoid<N: Size>(x: Vector<f32, N>) -> Vector<f32, N> {
    let one = Vector::<f32, N>::new(1.0f32);
    let small = (-x.abs()).exp();
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
        let exp = masked::<f32, N>(mask, i, (logit - Vector::new(largest)).exp(), zero);
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
            // Without an available expert 0 / 0 would be NaN.
            let p = probs[first + i] / Vector::new(sum);
            probs[first + i] = masked::<f32, N>(mask, i, p, zero);
        }
    }
    largest + sum.ln()
}

/// Chooses the experts of one token per unit.
///
/// Each round takes the best expert after the previous one in the order (key descending, index
/// ascending), so no list of what is already taken is needed.
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
            let at = (first, row, last_key, last_expert);
            let (key, expert) = if comptime!(bias.is_some()) {
                next_best::<N>(&*probs, &mask, &bias, &open, at, groups)
            } else {
                next_best::<N>(logits, &mask, &bias, &open, at, groups)
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
            renormalize(&*indices, weights, (slot, slot + top_k), experts, scale);
        }
    }
}

/// Turns logarithms of scores into their shares of the sum of scores, times `scale`.
#[cube]
fn renormalize(
    indices: &[u32],
    weights: &mut [f32],
    slots: (usize, usize),
    experts: u32,
    scale: f32,
) {
    // The best has the largest logarithm unless a bias chose it.
    let mut largest = weights[slots.0];
    for slot in slots.0 + 1..slots.1 {
        if indices[slot] < experts {
            largest = max(largest, weights[slot]);
        }
    }
    let mut sum = 0.0f32;
    for slot in slots.0..slots.1 {
        if indices[slot] < experts {
            let share = (weights[slot] - largest).exp();
            weights[slot] = share;
            sum += share;
        }
    }
    for slot in slots.0..slots.1 {
        if indices[slot] < experts {
            weights[slot] = scale * (weights[slot] / sum);
        }
    }
}

/// Buffers of the choice; shapes as in the module's contract, `mask` u32 \[E\], non-zero = available.
pub struct RouteBuffers {
    /// \[T,E\] f32, read.
    pub logits: Handle,
    /// \[E\] u32, read.
    pub mask: Option<Handle>,
    /// \[E\] f32, read: added to the scores in the comparison only.
    pub bias: Option<Handle>,
    /// \[T,K\] u32, written.
    pub indices: Handle,
    /// \[T,K\] f32, written.
    pub weights: Handle,
    /// \[T,E\] f32, written.
    pub probs: Handle,
    /// \[T\] f32, written.
    pub lse: Handle,
}

/// Enqueues the choice of experts.
pub fn launch(client: &Client, plan: &Plan, buffers: RouteBuffers) {
    let Plan {
        problem,
        lanes,
        grid,
    } = *plan;
    if problem.tokens == 0 {
        return;
    }
    let row = problem.experts / lanes;
    // SAFETY: the caller's buffers have the planned shapes; units past the last token return.
    unsafe {
        let mask = buffers
            .mask
            .map(|mask| BufferArg::from_raw_parts(mask, row));
        let bias = buffers
            .bias
            .map(|bias| BufferArg::from_raw_parts(bias, row));
        route_topk::launch_unchecked(
            client,
            grid.count(),
            grid.dim(),
            lanes,
            BufferArg::from_raw_parts(buffers.logits, problem.tokens * row),
            mask.into(),
            bias.into(),
            BufferArg::from_raw_parts(buffers.indices, problem.slots()),
            BufferArg::from_raw_parts(buffers.weights, problem.slots()),
            BufferArg::from_raw_parts(buffers.probs, problem.tokens * row),
            BufferArg::from_raw_parts(buffers.lse, problem.tokens),
            problem.tokens,
            row,
            problem.top_k,
            problem.scale,
            plan.spec(),
        );
    }
}

/// What [`reference()`] returns: `indices` and `weights` \[T,K\], `probs` \[T,E\], `lse` \[T\].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routed {
    /// Chosen experts; E where none was available.
    pub indices: Vec<u32>,
    /// Their weights.
    pub weights: Vec<f64>,
    /// Scores of all experts, 0 where masked.
    pub probs: Vec<f64>,
    /// Logsumexp over the available experts.
    pub lse: Vec<f64>,
}

/// The oracle without a bias: the choice of experts for `logits` \[T,E\] in f64.
pub fn reference(problem: &Problem, logits: &[f32], mask: Option<&[bool]>) -> Routed {
    reference_with_bias(problem, logits, mask, None)
}

/// The oracle: the choice of experts for `logits` \[T,E\], `mask` and `bias` \[E\], in f64.
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
        let probs = match problem.score {
            _ if !(0..row.len()).any(|e| available(&e)) => vec![0.0; row.len()],
            Score::Softmax => softmax(&masked),
            Score::Sigmoid => masked.iter().map(|l| 1.0 / (1.0 + (-l).exp())).collect(),
        };
        let biased = |e: usize| probs[e] + bias.map_or(0.0, |bias| f64::from(bias[e]));
        let key = |e: usize| match bias {
            Some(_) => biased(e),
            None => f64::from(row[e]),
        };
        let open = open_groups_reference(problem, &available, &biased);
        let mut order: Vec<usize> = (0..row.len()).filter(available).filter(open).collect();
        // A stable sort keeps equal keys in the order of their index.
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

/// The larger first, a NaN last.
fn descending(a: f64, b: f64) -> Ordering {
    let nan_last = a.is_nan().cmp(&b.is_nan());
    nan_last.then(b.partial_cmp(&a).unwrap_or(Ordering::Equal))
}

/// Which experts belong to a group that was chosen.
fn open_groups_reference(
    problem: &Problem,
    available: &dyn Fn(&usize) -> bool,
    biased: &dyn Fn(usize) -> f64,
) -> impl Fn(&usize) -> bool + use<> {
    let groups = problem.groups.unwrap_or(Groups {
        count: 1,
        chosen: 1,
    });
    let size = problem.experts / groups.count;
    let score = |group: usize| {
        let experts = (group * size..(group + 1) * size).filter(available);
        let mut scores: Vec<f64> = experts.map(biased).collect();
        scores.sort_by(|a, b| descending(*a, *b));
        let best_two = scores.iter().take(2).copied();
        best_two.reduce(|a, b| a + b).map(|sum| (group, sum))
    };
    let mut scores: Vec<(usize, f64)> = (0..groups.count).filter_map(score).collect();
    scores.sort_by(|a, b| descending(a.1, b.1));
    scores.truncate(groups.chosen);
    move |expert| scores.iter().any(|(group, _)| expert / size == *group)
}

/// Weights of the experts in `order`.
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

/// The choice of experts in every score, under a mask, and with a bias in groups.
#[cfg(feature = "emit")]
pub(super) fn entries() -> impl IntoIterator<Item = crate::emit::KernelEntry> {
    use crate::emit::{KernelEntry, Machine, Planned, buffer};
    let groups = Some(Groups {
        count: 8,
        chosen: 4,
    });
    let choices = [
        ("softmax", Score::Softmax, true, None, [false, false]),
        ("softmax_raw", Score::Softmax, false, None, [false, false]),
        ("sigmoid", Score::Sigmoid, true, None, [false, false]),
        ("sigmoid_raw", Score::Sigmoid, false, None, [false, false]),
        ("softmax_masked", Score::Softmax, true, None, [true, false]),
        ("sigmoid_bias", Score::Sigmoid, true, None, [false, true]),
        (
            "sigmoid_bias_groups",
            Score::Sigmoid,
            true,
            groups,
            [false, true],
        ),
        (
            "softmax_groups_masked",
            Score::Softmax,
            false,
            groups,
            [true, false],
        ),
    ];
    choices.map(|(short, score, renormalize, groups, [mask, bias])| {
        let build = move |at: &Machine| -> Planned {
            let problem = Problem::new(1024, 64, 2)?.with_score(score, renormalize);
            let plan = plan(problem.with_groups(groups)?, &at.capability)?;
            let (settings, device, target) = at.parts(plan.grid.dim());
            Ok(Box::new(route_topk::RouteTopk::new(
                settings,
                device,
                target,
                buffer(),
                super::optional_argument(mask),
                super::optional_argument(bias),
                buffer(),
                buffer(),
                buffer(),
                buffer(),
                (),
                (),
                (),
                (),
                plan.lanes,
                plan.spec(),
            )))
        };
        KernelEntry::new(("routing", "top-k"), format!("route_topk_{short}"), build)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scores 1/2, 1/5, 4/5 and 1/3 as sigmoids.
    const LOGITS: [f32; 4] = [0.0, -1.386_294_4, 1.386_294_4, -std::f32::consts::LN_2];

    fn sigmoid(top_k: usize) -> Problem {
        let problem = Problem::new(1, 4, top_k).unwrap();
        problem.with_score(Score::Sigmoid, true)
    }

    fn close(got: &[f64], want: &[f64]) {
        assert_eq!(got.len(), want.len());
        let far = got.iter().zip(want).find(|(a, b)| (*a - *b).abs() > 1e-6);
        assert!(far.is_none(), "{got:?} {want:?}");
    }

    #[test]
    fn a_bias_moves_the_choice_and_not_the_weights() {
        let bias = [0.0, 0.7, 0.0, 0.0];
        let routed = reference_with_bias(&sigmoid(2), &LOGITS, None, Some(&bias));
        assert_eq!(routed.indices, [1, 2]);
        close(&routed.weights, &[0.2, 0.8]);
        close(&routed.probs, &[0.5, 0.2, 0.8, 1.0 / 3.0]);
    }

    #[test]
    fn groups_go_by_their_two_best() {
        // 1/2 + 1/5 against 4/5 + 1/3.
        let groups = |chosen| Some(Groups { count: 2, chosen });
        let one = sigmoid(2).with_groups(groups(1)).unwrap();
        assert_eq!(reference(&one, &LOGITS, None).indices, [2, 3]);
        // Without its best the second group has 1/3.
        let mask = [true, true, false, true];
        let routed = reference(&one.with_scale(2.0).unwrap(), &LOGITS, Some(&mask));
        assert_eq!(routed.indices, [0, 1]);
        close(&routed.weights, &[10.0 / 7.0, 4.0 / 7.0]);
        let both = sigmoid(3).with_groups(groups(2)).unwrap();
        assert_eq!(reference(&both, &LOGITS, None).indices, [2, 0, 3]);
    }

    #[test]
    fn logsumexp_of_the_available() {
        let problem = Problem::new(1, 8, 1).unwrap();
        let routed = reference(&problem, &[0.0; 8], None);
        close(&routed.lse, &[2.079_441_541_679_835_7]);
        let half: Vec<bool> = (0..8).map(|e| e < 4).collect();
        let routed = reference(&problem, &[0.0; 8], Some(&half));
        close(&routed.lse, &[1.386_294_361_119_890_6]);
        let none = reference(&problem, &[0.0; 8], Some(&[false; 8]));
        assert_eq!(none.lse, [f64::NEG_INFINITY]);
        assert_eq!((none.indices[0], none.weights[0]), (8, 0.0));
    }

    #[test]
    fn options_are_checked() {
        let problem = Problem::new(4, 12, 4).unwrap();
        for (count, chosen) in [(0, 1), (5, 1), (4, 0), (4, 5), (4, 1), (24, 24)] {
            let groups = Some(Groups { count, chosen });
            assert!(problem.with_groups(groups).is_err(), "{count} {chosen}");
        }
        let two = Some(Groups {
            count: 4,
            chosen: 2,
        });
        assert!(problem.with_groups(two).is_ok());
        let single = Some(Groups {
            count: 12,
            chosen: 4,
        });
        assert!(problem.with_groups(single).is_ok());
        assert!(problem.with_scale(f32::NAN).is_err());
        assert!(problem.with_scale(f32::INFINITY).is_err());
    }
}
