//! Routing: router logits, then the `top_k` experts of every token and their weights.
//!
//! logits = x · Wgᵀ in f32, whatever the dtype of x and Wg. score = softmax or sigmoid over the
//! experts; the K largest are chosen, ties to the lowest index; `renormalize` divides their
//! scores by their sum. Selection compares the bits of the logits as ordered integers (both scores
//! grow with the logit), so no fast-math mode can change it.
//!
//! Shapes: x \[T,H\], Wg \[E,H\], logits and probs \[T,E\] f32, indices u32 and weights f32 \[T,K\].
//! A masked expert is never chosen and has probability 0; a slot that finds no expert holds index
//! E and weight 0. A NaN logit ranks below every number; it makes the softmax of its token NaN, and
//! the renormalised weights too if it is chosen.
//!
//! FLOPs: 2·T·E·H for the logits, about T·E·(K+4) compares and exponentials for the choice.
//! Bytes: T·H + E·H elements read, 4·T·(2E + 2K) written.

use crate::element::Element;
use crate::error::{ShapeError, Unsupported};
use crate::grid::{Grid, lanes};
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::Capability;
use serde::{Deserialize, Serialize};

/// How a logit becomes a score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Score {
    /// exp(l) / Σ exp(l) over the available experts.
    #[default]
    Softmax,
    /// 1 / (1 + exp(−l)).
    Sigmoid,
}

/// The choice of experts for `tokens` tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    tokens: usize,
    experts: usize,
    top_k: usize,
    score: Score,
    renormalize: bool,
}

impl Problem {
    /// Chooses `top_k` of `experts`.
    ///
    /// # Errors
    /// [`ShapeError`] unless 1 ≤ `top_k` ≤ `experts` and every product of sizes fits 31 bits.
    pub fn new(tokens: usize, experts: usize, top_k: usize) -> Result<Self, ShapeError> {
        if experts == 0 {
            return Err(ShapeError::new("experts", "at least 1", experts));
        }
        if top_k == 0 || top_k > experts {
            let expected = format!("1 to {experts} (the number of experts)");
            return Err(ShapeError::new("top_k", expected, top_k));
        }
        let largest = tokens
            .checked_mul(experts)
            .filter(|n| *n <= i32::MAX as usize);
        if largest.is_none() {
            let got = format!("{tokens} x {experts}");
            return Err(ShapeError::new("tokens x experts", "at most 2^31 - 1", got));
        }
        Ok(Self {
            tokens,
            experts,
            top_k,
            score: Score::Softmax,
            renormalize: true,
        })
    }

    /// The same with another score.
    pub fn with_score(self, score: Score, renormalize: bool) -> Self {
        Self {
            score,
            renormalize,
            ..self
        }
    }

    /// Tokens T.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Experts E.
    pub fn experts(&self) -> usize {
        self.experts
    }

    /// Experts per token K.
    pub fn top_k(&self) -> usize {
        self.top_k
    }

    /// How a logit becomes a score.
    pub fn score(&self) -> Score {
        self.score
    }

    /// Whether the chosen scores are divided by their sum.
    pub fn renormalize(&self) -> bool {
        self.renormalize
    }

    /// (token, choice) pairs S = T·K.
    pub fn slots(&self) -> usize {
        self.tokens * self.top_k
    }
}

/// STUB
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    count: usize,
    chosen: usize,
}
impl Groups {
    /// STUB
    pub fn new(count: usize, chosen: usize) -> Self {
        Self { count, chosen }
    }
    /// STUB
    pub fn count(&self) -> usize {
        self.count
    }
    /// STUB
    pub fn chosen(&self) -> usize {
        self.chosen
    }
}
impl Problem {
    /// STUB
    pub fn groups(&self) -> Option<Groups> {
        None
    }
    /// STUB
    pub fn scale(&self) -> f32 {
        1.0
    }
    /// STUB
    pub fn with_groups(self, _: Option<Groups>) -> Result<Self, ShapeError> {
        Ok(self)
    }
    /// STUB
    pub fn with_scale(self, _: f32) -> Result<Self, ShapeError> {
        Ok(self)
    }
}
/// STUB
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// w
    Weights,
    /// p
    Probs,
    /// l
    LogSumExp,
}
/// STUB
pub mod hash {
    use crate::ShapeError;
    /// STUB
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Key {
        /// p
        Position {
            /// s
            sequence: usize,
        },
        /// c
        Content,
    }
    /// STUB
    #[derive(Clone, Copy, Debug)]
    pub struct Problem {
        tokens: usize,
        experts: usize,
        top_k: usize,
    }
    impl Problem {
        /// STUB
        pub fn new(
            tokens: usize,
            experts: usize,
            top_k: usize,
            _key: Key,
            _seed: u32,
        ) -> Result<Self, ShapeError> {
            Ok(Self {
                tokens,
                experts,
                top_k,
            })
        }
        /// STUB
        pub fn tokens(&self) -> usize {
            self.tokens
        }
        /// STUB
        pub fn experts(&self) -> usize {
            self.experts
        }
        /// STUB
        pub fn top_k(&self) -> usize {
            self.top_k
        }
    }
    /// STUB
    #[derive(Clone, Copy, Debug)]
    pub struct Plan;
    /// STUB
    pub fn plan(
        _: Problem,
        _: usize,
        _: crate::Element,
        _: &moebius_device::Capability,
    ) -> Result<Plan, crate::Unsupported> {
        Ok(Plan)
    }
    /// STUB
    pub fn reference(p: &Problem, _x: &[f32], mask: Option<&[bool]>) -> (Vec<u32>, Vec<f32>) {
        let free: Vec<u32> = (0..p.experts as u32)
            .filter(|e| mask.is_none_or(|m| m[*e as usize]))
            .collect();
        let (mut i, mut w) = (Vec::new(), Vec::new());
        for t in 0..p.tokens {
            for k in 0..p.top_k {
                if k < free.len() {
                    i.push(free[(t + k) % free.len()]);
                    w.push(1.0 / p.top_k as f32);
                } else {
                    i.push(p.experts as u32);
                    w.push(0.0);
                }
            }
        }
        (i, w)
    }
}
/// STUB
pub mod load {
    /// STUB
    #[derive(Clone, Copy, Debug)]
    pub struct Problem {
        groups: usize,
        experts: usize,
    }
    impl Problem {
        /// STUB
        pub fn new(_len: usize, groups: usize, experts: usize) -> Result<Self, crate::ShapeError> {
            Ok(Self { groups, experts })
        }
        /// STUB
        pub fn groups(&self) -> usize {
            self.groups
        }
        /// STUB
        pub fn experts(&self) -> usize {
            self.experts
        }
    }
    /// STUB
    #[derive(Clone, Copy, Debug)]
    pub struct Plan;
    /// STUB
    pub fn plan(_: Problem, _: &moebius_device::Capability) -> Result<Plan, crate::Unsupported> {
        Ok(Plan)
    }
}

/// A [`Problem`] this device can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    problem: Problem,
    grid: Grid,
}

/// Plans the choice: one unit per token.
///
/// # Errors
/// [`Unsupported`] when the logits exceed one binding or the cubes one grid.
pub fn plan(problem: Problem, device: &Capability) -> Result<Plan, Unsupported> {
    crate::fits_binding("route", problem.tokens * problem.experts * 4, device)?;
    let grid = Grid::elementwise("route", problem.tokens, device)?;
    Ok(Plan { problem, grid })
}

/// Router logits of `tokens` rows: one unit per (token, expert).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogitsPlan {
    problem: Problem,
    hidden: usize,
    element: Element,
    lanes: usize,
    grid: Grid,
}

/// Plans the logits of x \[T,`hidden`\].
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, or more than a binding or a grid holds.
pub fn plan_logits(
    problem: Problem,
    hidden: usize,
    element: Element,
    device: &Capability,
) -> Result<LogitsPlan, Unsupported> {
    element.supported("router_logits", device)?;
    crate::fits_binding(
        "router_logits",
        problem.tokens * hidden * element.bytes(),
        device,
    )?;
    crate::fits_binding(
        "router_logits",
        problem.tokens * problem.experts * 4,
        device,
    )?;
    Ok(LogitsPlan {
        problem,
        hidden,
        element,
        lanes: lanes(hidden, element.bytes(), device),
        grid: Grid::elementwise("router_logits", problem.tokens * problem.experts, device)?,
    })
}

/// logits\[t,e\] = Σ_h x\[t,h\] · w\[e,h\] in f32, summed lane by lane, then over the lanes.
#[cube(launch_unchecked)]
fn router_logits<F: Float, N: Size>(
    x: &[Vector<F, N>],
    w: &[Vector<F, N>],
    logits: &mut [f32],
    experts: usize,
    row: usize,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < logits.len() {
        let token = ABSOLUTE_POS / experts;
        let expert = ABSOLUTE_POS % experts;
        let mut sum = Vector::<f32, N>::new(0.0f32);
        for i in 0..row {
            let a = Vector::<f32, N>::cast_from(x[token * row + i]);
            let b = Vector::<f32, N>::cast_from(w[expert * row + i]);
            sum = fma(a, b, sum);
        }
        logits[ABSOLUTE_POS] = sum.vector_sum();
    }
}

/// Enqueues logits = x · Wgᵀ.
pub fn launch_logits(client: &Client, plan: &LogitsPlan, x: Handle, w: Handle, logits: Handle) {
    let Problem {
        tokens, experts, ..
    } = plan.problem;
    if tokens == 0 {
        return;
    }
    let row = plan.hidden / plan.lanes;
    // SAFETY: the caller's buffers have the planned shapes; units past the last logit return.
    unsafe {
        router_logits::launch_unchecked(
            client,
            plan.grid.count(),
            plan.grid.dim(),
            plan.lanes,
            BufferArg::from_raw_parts(x, tokens * row),
            BufferArg::from_raw_parts(w, experts * row),
            BufferArg::from_raw_parts(logits, tokens * experts),
            experts,
            row,
            plan.element.elem_type(),
        );
    }
}

/// The bits of a float as an integer that orders like it: NaN lowest, −0 equal to +0.
#[cube]
fn ordered(value: f32) -> u32 {
    let bits = u32::reinterpret(value);
    let bits = select(bits == 0x8000_0000, 0u32, bits);
    let flipped = select((bits >> 31) == 1, !bits, bits | 0x8000_0000);
    select((bits & 0x7FFF_FFFF) > 0x7F80_0000, 0u32, flipped)
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
fn sigmoid(x: f32) -> f32 {
    let small = (-x.abs()).exp();
    select(x < 0.0, small, 1.0f32) / (1.0f32 + small)
}

#[cube]
fn available(mask: &ComptimeOption<&[u32]>, expert: usize) -> bool {
    #[comptime]
    match mask {
        ComptimeOption::Some(mask) => mask[expert] != 0,
        ComptimeOption::None => true.runtime(),
    }
}

/// Probabilities of one token; returns nothing, writes a row of `probs`.
#[cube]
fn write_probs(
    logits: &[f32],
    mask: &ComptimeOption<&[u32]>,
    probs: &mut [f32],
    first: usize,
    experts: usize,
    #[comptime] score: Score,
) {
    let mut largest = f32::min_value();
    for e in 0..experts {
        if available(mask, e) {
            largest = max(largest, logits[first + e]);
        }
    }
    let mut sum = 0.0f32;
    for e in 0..experts {
        if available(mask, e) {
            sum += (logits[first + e] - largest).exp();
        }
    }
    for e in 0..experts {
        let mut p = 0.0f32;
        if available(mask, e) {
            if comptime!(score == Score::Sigmoid) {
                p = sigmoid(logits[first + e]);
            } else {
                p = (logits[first + e] - largest).exp() / sum;
            }
        }
        probs[first + e] = p;
    }
}

/// Chooses the experts of one token per unit.
///
/// Each round takes the best expert after the previous one in the order (key descending, index
/// ascending), so no list of what is already taken is needed.
#[cube(launch_unchecked)]
fn route_topk(
    logits: &[f32],
    mask: ComptimeOption<&[u32]>,
    indices: &mut [u32],
    weights: &mut [f32],
    probs: &mut [f32],
    tokens: usize,
    experts: usize,
    top_k: usize,
    #[comptime] score: Score,
    #[comptime] renormalize: bool,
) {
    if ABSOLUTE_POS < tokens {
        let first = ABSOLUTE_POS * experts;
        let slot = ABSOLUTE_POS * top_k;
        write_probs(logits, &mask, probs, first, experts, score);

        let mut last_key = u32::MAX.runtime();
        let mut last_expert = 0usize;
        let mut largest = 0.0f32;
        let mut sum = 0.0f32;
        for k in 0..top_k {
            let mut best = experts;
            let mut best_key = 0u32;
            for e in 0..experts {
                let key = ordered(logits[first + e]);
                let after = key < last_key || (key == last_key && e > last_expert);
                let better = best == experts || key > best_key;
                if available(&mask, e) && after && better {
                    best = e;
                    best_key = key;
                }
            }
            indices[slot + k] = best as u32;
            let mut weight = 0.0f32;
            if best < experts {
                last_key = best_key;
                last_expert = best;
                if comptime!(renormalize) {
                    let log = log_score(logits[first + best], score);
                    if k == 0 {
                        largest = log;
                    }
                    weight = (log - largest).exp();
                } else {
                    weight = probs[first + best];
                }
            }
            weights[slot + k] = weight;
            sum += weight;
        }
        if comptime!(renormalize) {
            for k in 0..top_k {
                if indices[slot + k] < experts as u32 {
                    weights[slot + k] /= sum;
                }
            }
        }
    }
}

/// Buffers of the choice; shapes as in the module's contract, `mask` u32 \[E\], non-zero = available.
pub struct RouteBuffers {
    /// \[T,E\] f32, read.
    pub logits: Handle,
    /// \[E\] u32, read.
    pub mask: Option<Handle>,
    /// \[T,K\] u32, written.
    pub indices: Handle,
    /// \[T,K\] f32, written.
    pub weights: Handle,
    /// \[T,E\] f32, written.
    pub probs: Handle,
}

/// Enqueues the choice of experts.
pub fn launch(client: &Client, plan: &Plan, buffers: RouteBuffers) {
    let Plan { problem, grid } = *plan;
    if problem.tokens == 0 {
        return;
    }
    let logits = problem.tokens * problem.experts;
    // SAFETY: the caller's buffers have the planned shapes; units past the last token return.
    unsafe {
        let mask = buffers
            .mask
            .map(|mask| BufferArg::from_raw_parts(mask, problem.experts));
        route_topk::launch_unchecked(
            client,
            grid.count(),
            grid.dim(),
            BufferArg::from_raw_parts(buffers.logits, logits),
            mask.into(),
            BufferArg::from_raw_parts(buffers.indices, problem.slots()),
            BufferArg::from_raw_parts(buffers.weights, problem.slots()),
            BufferArg::from_raw_parts(buffers.probs, logits),
            problem.tokens,
            problem.experts,
            problem.top_k,
            problem.score,
            problem.renormalize,
        );
    }
}

/// What [`reference()`] returns: `indices` and `weights` \[T,K\], `probs` \[T,E\].
#[derive(Clone, Debug, PartialEq)]
pub struct Routed {
    /// Chosen experts; E where none was available.
    pub indices: Vec<u32>,
    /// Their weights.
    pub weights: Vec<f64>,
    /// Scores of all experts, 0 where masked.
    pub probs: Vec<f64>,
}

/// The oracle: the choice of experts for `logits` \[T,E\] in f64.
pub fn reference(problem: &Problem, logits: &[f32], mask: Option<&[bool]>) -> Routed {
    let mut routed = Routed {
        indices: Vec::new(),
        weights: Vec::new(),
        probs: Vec::new(),
    };
    let available = |e: usize| mask.is_none_or(|mask| mask[e]);
    for row in logits.chunks(problem.experts) {
        let masked: Vec<f64> = (0..row.len())
            .map(|e| {
                if available(e) {
                    f64::from(row[e])
                } else {
                    f64::NEG_INFINITY
                }
            })
            .collect();
        let probs = match problem.score {
            Score::Softmax => softmax(&masked),
            Score::Sigmoid => masked.iter().map(|l| 1.0 / (1.0 + (-l).exp())).collect(),
        };
        let mut order: Vec<usize> = (0..row.len()).filter(|e| available(*e)).collect();
        let rank = |e: usize| {
            if row[e].is_nan() {
                f32::NEG_INFINITY
            } else {
                row[e]
            }
        };
        order.sort_by(|a, b| {
            let nan_last = row[*a].is_nan().cmp(&row[*b].is_nan());
            nan_last.then(
                rank(*b)
                    .partial_cmp(&rank(*a))
                    .unwrap_or(std::cmp::Ordering::Equal),
            )
        });
        order.truncate(problem.top_k);
        let mut weights: Vec<f64> = order.iter().map(|e| probs[*e]).collect();
        if problem.renormalize && problem.score == Score::Softmax {
            let chosen: Vec<f64> = order.iter().map(|e| f64::from(row[*e])).collect();
            weights = softmax(&chosen);
        } else if problem.renormalize {
            let sum: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|w| *w /= sum);
        }
        order.resize(problem.top_k, problem.experts);
        weights.resize(problem.top_k, 0.0);
        routed.indices.extend(order.iter().map(|e| *e as u32));
        routed.weights.extend(weights);
        routed.probs.extend(probs);
    }
    routed
}

fn softmax(logits: &[f64]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exp: Vec<f64> = logits.iter().map(|l| (l - largest).exp()).collect();
    let sum: f64 = exp.iter().sum();
    exp.iter().map(|e| e / sum).collect()
}

/// Router logits of every element type; the choice of experts in every score, and under a mask.
#[cfg(feature = "emit")]
pub(crate) fn entries() -> Vec<crate::emit::KernelEntry> {
    use crate::emit::{KernelEntry, Machine, Planned, buffer};
    let logits = Element::ALL.map(|element| {
        let build = move |at: &Machine| -> Planned {
            let plan = plan_logits(Problem::new(1024, 8, 2)?, 512, element, &at.capability)?;
            let (settings, device, target) = at.parts(plan.grid.dim());
            Ok(Box::new(router_logits::RouterLogits::new(
                settings,
                device,
                target,
                buffer(),
                buffer(),
                buffer(),
                (),
                (),
                plan.lanes,
                element.elem_type(),
            )))
        };
        let name = format!("router_logits_{element}");
        KernelEntry::new(("routing", "logits"), name, build).of(element)
    });
    let choices = [
        ("softmax", Score::Softmax, true, false),
        ("softmax_raw", Score::Softmax, false, false),
        ("sigmoid", Score::Sigmoid, true, false),
        ("sigmoid_raw", Score::Sigmoid, false, false),
        ("softmax_masked", Score::Softmax, true, true),
    ];
    let choices = choices.map(|(short, score, renormalize, masked)| {
        let build = move |at: &Machine| -> Planned {
            let problem = Problem::new(1024, 8, 2)?.with_score(score, renormalize);
            let (settings, device, target) = at.parts(plan(problem, &at.capability)?.grid.dim());
            let mask = if masked {
                ComptimeOptionCompilationArg::Some(buffer())
            } else {
                ComptimeOptionCompilationArg::None
            };
            Ok(Box::new(route_topk::RouteTopk::new(
                settings,
                device,
                target,
                buffer(),
                mask,
                buffer(),
                buffer(),
                buffer(),
                (),
                (),
                (),
                score,
                renormalize,
            )))
        };
        KernelEntry::new(("routing", "top-k"), format!("route_topk_{short}"), build)
    });
    logits.into_iter().chain(choices).collect()
}
