//! How CubeCL computes [`moebius_ops::routing::reference_with_bias`].
//!
//! Keys are compared as integers that order like the floats, so no fast-math mode can change a choice.
//!
//! A unit makes about (K+3)·E/4 rounds of loops for its token. Where a device allows fewer, one launch writes the scores, and more
//! launches make some of the choices each.
//!
//! FLOPs: about T·E·(K+4) compares and exponentials. Bytes: 4·T·(2E + 2K + 1).

use super::selection::{Search, exp_or_nan, key_at, logsumexp, masked, next_best, open_groups};
use super::{Groups, Problem, Score};
use crate::prelude::*;
use crate::rounds::{allows, fits_rounds, looped};
use cubecl::prelude::*;

/// A [`Problem`], planned for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    problem: Problem,
    lanes: usize,
    grid: Grid,
    /// The choices of each launch after the first, which then makes none that is kept; `None` if one launch makes all choices.
    choices: Option<usize>,
}

/// Plans the choice: one unit per token.
///
/// # Errors
/// [`Unsupported`] when the logits exceed one binding, the cubes one grid, or the loops over one token's experts the rounds that the
/// device allows.
pub fn plan(problem: Problem, device: &Capability) -> Result<Plan, Unsupported> {
    crate::fits_binding("route", problem.tokens() * problem.experts() * 4, device)?;
    let groups = problem.groups().map_or(1, |groups| groups.count);
    // Each group is a whole number of vectors.
    let lanes = lanes(problem.experts() / groups, 4, device);
    let rounds = Rounds::of(&problem, lanes);
    let choices = if allows(device, rounds.together(problem.top_k())) {
        None
    } else {
        fits_rounds("route", rounds.together(1).max(rounds.choices(1)), device)?;
        let fits = |choices: &usize| allows(device, rounds.choices(*choices));
        let most = (1..problem.top_k()).take_while(fits).last();
        Some(most.unwrap_or(1))
    };
    Ok(Plan {
        problem,
        lanes,
        grid: Grid::elementwise("route", problem.tokens(), device)?,
        choices,
    })
}

/// Rounds of the loops over one token's experts.
struct Rounds {
    /// Of the scores.
    scores: usize,
    /// Of the choice of groups.
    groups: usize,
    /// Of one choice.
    choice: usize,
    /// Of the weights of all choices.
    weights: usize,
}

impl Rounds {
    fn of(problem: &Problem, lanes: usize) -> Self {
        let row = problem.experts() / lanes;
        let (groups, choice) = match problem.groups() {
            None => (0, looped(row, 0)),
            Some(groups) => {
                let of_all = looped(groups.count, looped(row / groups.count, 0));
                let chosen = looped(groups.chosen, looped(groups.count, 0));
                (of_all + chosen, of_all)
            }
        };
        Self {
            scores: 3 * looped(row, 0),
            groups,
            choice,
            weights: if problem.renormalize() {
                3 * looped(problem.top_k(), 0)
            } else {
                0
            },
        }
    }

    /// Of a launch that makes `choices` choices.
    fn choices(&self, choices: usize) -> usize {
        self.groups + looped(choices, self.choice) + self.weights
    }

    /// Of a launch that writes the scores, too.
    fn together(&self, choices: usize) -> usize {
        self.scores + self.choices(choices)
    }
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

/// Makes the choices from `begin` to before `end` of each token, whose scores and earlier choices are there; one unit per token.
///
/// The search goes on after the previous choice, whose key follows from the expert.
#[cube(launch_unchecked)]
fn route_choices<N: Size>(
    logits: &[Vector<f32, N>],
    mask: ComptimeOption<&[Vector<u32, N>]>,
    bias: ComptimeOption<&[Vector<f32, N>]>,
    probs: &[Vector<f32, N>],
    indices: &mut [u32],
    weights: &mut [f32],
    tokens: usize,
    row: usize,
    top_k: usize,
    begin: usize,
    end: usize,
    scale: f32,
    #[comptime] spec: Spec,
) {
    if ABSOLUTE_POS < tokens {
        let first = ABSOLUTE_POS * row;
        let slot = ABSOLUTE_POS * top_k;
        let biased = comptime!(bias.is_some());
        let groups = comptime!(spec.groups.map_or(1, |groups| groups.count));
        let open = match comptime!(spec.groups) {
            Some(groups) => open_groups::<N>(probs, &mask, &bias, first, row, groups),
            None => Array::<u32>::new(1usize),
        };
        let mut last_key = u32::MAX.runtime();
        let mut last_expert = 0u32;
        if begin > 0 {
            last_expert = indices[slot + begin - 1];
            // After a choice without an expert there is none.
            last_key =
                key_of_choice::<N>(logits, probs, &mask, &bias, last_expert, first, row, biased);
        }
        for k in begin..end {
            let at = Search {
                first,
                row,
                last_key,
                last_expert,
            };
            let (key, expert) = best::<N>(logits, probs, &mask, &bias, &open, &at, groups, biased);
            last_key = key;
            last_expert = expert;
            let to = slot + k;
            keep::<N>(
                logits, probs, indices, weights, &at, key, expert, to, scale, spec,
            );
        }
        if comptime!(spec.renormalize) {
            let experts = (row * N::value()) as u32;
            renormalize_last(&*indices, weights, slot, top_k, end, experts, scale);
        }
    }
}

/// The best expert after the previous one, by biased scores if there is a bias.
#[cube]
fn best<N: Size>(
    logits: &[Vector<f32, N>],
    probs: &[Vector<f32, N>],
    mask: &ComptimeOption<&[Vector<u32, N>]>,
    bias: &ComptimeOption<&[Vector<f32, N>]>,
    open: &Array<u32>,
    at: &Search,
    #[comptime] groups: usize,
    #[comptime] biased: bool,
) -> (u32, u32) {
    if comptime!(biased) {
        next_best::<N>(probs, mask, bias, open, at, groups)
    } else {
        next_best::<N>(logits, mask, bias, open, at, groups)
    }
}

/// The key of an expert that was chosen from the row of vectors that starts at `first`; 0 for none.
#[cube]
fn key_of_choice<N: Size>(
    logits: &[Vector<f32, N>],
    probs: &[Vector<f32, N>],
    mask: &ComptimeOption<&[Vector<u32, N>]>,
    bias: &ComptimeOption<&[Vector<f32, N>]>,
    expert: u32,
    first: usize,
    row: usize,
    #[comptime] biased: bool,
) -> u32 {
    let mut key = 0u32;
    if expert < (row * N::value()) as u32 {
        key = if comptime!(biased) {
            key_at::<N>(probs, mask, bias, first, expert as usize)
        } else {
            key_at::<N>(logits, mask, bias, first, expert as usize)
        };
    }
    key
}

/// Writes a choice to `slot`: the expert and its score, or the score's logarithm; the number of experts and 0 where the key says that
/// there is no expert.
#[cube]
fn keep<N: Size>(
    logits: &[Vector<f32, N>],
    probs: &[Vector<f32, N>],
    indices: &mut [u32],
    weights: &mut [f32],
    at: &Search,
    key: u32,
    expert: u32,
    slot: usize,
    scale: f32,
    #[comptime] spec: Spec,
) {
    let mut chosen = (at.row * N::value()) as u32;
    let mut weight = 0.0f32;
    if key > 0 {
        chosen = expert;
        let vector = at.first + expert as usize / N::value();
        let lane = expert as usize % N::value();
        weight = if comptime!(spec.renormalize) {
            log_score(logits[vector].extract_dynamic(lane), spec.score)
        } else {
            scale * probs[vector].extract_dynamic(lane)
        };
    }
    indices[slot] = chosen;
    weights[slot] = weight;
}

/// [`renormalize`]s the weights of a token if its choices end at `end`.
#[cube]
fn renormalize_last(
    indices: &[u32],
    weights: &mut [f32],
    slot: usize,
    top_k: usize,
    end: usize,
    experts: u32,
    scale: f32,
) {
    if end == top_k {
        renormalize(indices, weights, slot, slot + top_k, experts, scale);
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

/// The name of a launch: of all choices together, or of the choices alone.
pub(super) fn name(problem: &Problem, masked: bool, biased: bool, alone: bool) -> String {
    let kernel = if alone { "route_choices" } else { "route_topk" };
    let score = score_name(problem);
    let biased = launched::suffix(biased, "_bias");
    let groups = launched::suffix(problem.groups().is_some(), "_groups");
    let masked = launched::suffix(masked, "_masked");
    format!("{kernel}_{score}{biased}{groups}{masked}")
}

/// The part of a kernel's name for the score, and for whether weights are renormalised.
pub(super) fn score_name(problem: &Problem) -> String {
    let score = format!("{:?}", problem.score()).to_lowercase();
    format!(
        "{score}{}",
        launched::suffix(!problem.renormalize(), "_raw")
    )
}

/// Enqueues the choice of experts: one launch, or several where a device ends long loops.
pub fn launch(client: &Client, plan: &Plan, buffers: RouteBuffers) {
    let problem = &plan.problem;
    if problem.tokens() == 0 {
        return;
    }
    let Some(choices) = plan.choices else {
        return launch_all(client, plan, buffers, problem.top_k());
    };
    // The scores come with a first choice, which is made again among the others.
    let scores = RouteBuffers {
        indices: empty_words(client, problem.tokens()),
        weights: empty_words(client, problem.tokens()),
        ..buffers.clone()
    };
    launch_all(client, plan, scores, 1);
    for begin in (0..problem.top_k()).step_by(choices) {
        let end = (begin + choices).min(problem.top_k());
        launch_choices(client, plan, buffers.clone(), [begin, end]);
    }
}

impl Plan {
    fn spec(&self) -> Spec {
        Spec {
            score: self.problem.score(),
            renormalize: self.problem.renormalize(),
            groups: self.problem.groups(),
        }
    }
}

/// Enqueues the scores and the best `top_k` choices, which is all that `buffers` has room for.
fn launch_all(client: &Client, plan: &Plan, buffers: RouteBuffers, top_k: usize) {
    let (problem, lanes, grid) = (&plan.problem, plan.lanes, plan.grid);
    let spec = plan.spec();
    launched::note(|| {
        let (masked, biased) = (buffers.mask.is_some(), buffers.bias.is_some());
        name(problem, masked, biased, false)
    });
    let (count, dim) = (grid.count(), grid.dim());
    let (mask, bias) = (buffers.mask.map(bind).into(), buffers.bias.map(bind).into());
    let [logits, indices, weights] = [buffers.logits, buffers.indices, buffers.weights].map(bind);
    let [probs, lse] = [buffers.probs, buffers.lse].map(bind);
    let (tokens, row) = (problem.tokens(), problem.experts() / lanes);
    let scale = problem.scale();
    // SAFETY: the buffers are as long as they are described; units past the last token return.
    unsafe {
        route_topk::launch_unchecked(
            client, count, dim, lanes, logits, mask, bias, indices, weights, probs, lse, tokens,
            row, top_k, scale, spec,
        );
    }
}

/// Enqueues the choices from `begin` to before `end`.
fn launch_choices(client: &Client, plan: &Plan, buffers: RouteBuffers, [begin, end]: [usize; 2]) {
    let (problem, lanes, grid) = (&plan.problem, plan.lanes, plan.grid);
    let spec = plan.spec();
    launched::note(|| {
        let (masked, biased) = (buffers.mask.is_some(), buffers.bias.is_some());
        name(problem, masked, biased, true)
    });
    let (count, dim) = (grid.count(), grid.dim());
    let (mask, bias) = (buffers.mask.map(bind).into(), buffers.bias.map(bind).into());
    let [logits, probs] = [buffers.logits, buffers.probs].map(bind);
    let [indices, weights] = [buffers.indices, buffers.weights].map(bind);
    let (tokens, row) = (problem.tokens(), problem.experts() / lanes);
    let (top_k, scale) = (problem.top_k(), problem.scale());
    // SAFETY: the buffers are as long as they are described; units past the last token return, and choices end with the token's.
    unsafe {
        route_choices::launch_unchecked(
            client, count, dim, lanes, logits, mask, bias, probs, indices, weights, tokens, row,
            top_k, begin, end, scale, spec,
        );
    }
}
