//! Router logits, the choice of experts, and the sort of its slots.

use super::{Signature, f32s, floats, signature, words};
use crate::element::Element;
use crate::error::ShapeError;
use crate::moe::sorting;
use crate::routing::{HashKey, HashProblem, LoadProblem, Problem, TopkGradient};
use serde::{Deserialize, Serialize};

/// An operation of [`crate::routing`], or the sort of [`crate::permute`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Routing {
    /// x · Wgᵀ in f32.
    Logits {
        /// Tokens and experts.
        problem: Problem,
        /// Width of a token H.
        hidden: usize,
        /// Type of x and Wg.
        element: Element,
    },
    /// Gradients of x and Wg.
    LogitsBackward {
        /// Tokens and experts.
        problem: Problem,
        /// Width of a token H.
        hidden: usize,
        /// Type of x and Wg.
        element: Element,
    },
    /// The choice of experts.
    Route {
        /// The choice.
        problem: Problem,
        /// Whether a mask says who may be chosen.
        mask: bool,
        /// Whether a bias is added to the scores for the choice.
        bias: bool,
    },
    /// The logits' gradient through one output of the choice.
    RouteBackward {
        /// The choice.
        problem: Problem,
        /// Whether a mask said who might be chosen.
        mask: bool,
        /// The output.
        of: TopkGradient,
    },
    /// The choice of experts by hash.
    Hash {
        /// The choice.
        problem: HashProblem,
        /// Columns of x, which is an operand even where only the position is hashed: it says on which device.
        hidden: usize,
        /// Type of x.
        element: Element,
        /// Makes one choice differ from another.
        seed: u32,
        /// Whether a mask says who may be chosen.
        mask: bool,
    },
    /// Counts of choices.
    Load(LoadProblem),
    /// Slots sorted by expert.
    Sort {
        /// The sort.
        problem: sorting::Problem,
        /// Whether a mask says who takes any.
        mask: bool,
    },
}

impl Routing {
    pub(super) fn signature(&self) -> Signature {
        let logits = |name, p: &Problem| Some(f32s(name, [p.tokens(), p.experts()]));
        let weights = |name, p: &Problem| Some(f32s(name, [p.tokens(), p.top_k()]));
        let indices = |p: &Problem| Some(words("indices", [p.tokens(), p.top_k()]));
        let lse = |name, p: &Problem| Some(f32s(name, [p.tokens()]));
        let mask = |mask: bool, p: &Problem| mask.then(|| words("mask", [p.experts()]));
        match *self {
            Self::Logits {
                problem: p,
                hidden,
                element,
            } => signature(
                "router logits",
                [
                    Some(floats("x", [p.tokens(), hidden], element)),
                    Some(floats("Wg", [p.experts(), hidden], element)),
                ],
                [logits("logits", &p)],
            ),
            Self::LogitsBackward {
                problem: p,
                hidden,
                element,
            } => {
                let x = |name| Some(floats(name, [p.tokens(), hidden], element));
                let w = |name| Some(floats(name, [p.experts(), hidden], element));
                let operands = [x("x"), w("Wg"), logits("dlogits", &p)];
                signature("router logits backward", operands, [x("dx"), w("dWg")])
            }
            Self::Route {
                problem: p,
                mask: masked,
                bias,
            } => {
                let bias = bias.then(|| f32s("bias", [p.experts()]));
                let operands = [logits("logits", &p), mask(masked, &p), bias];
                let probs = logits("probs", &p);
                let results = [indices(&p), weights("weights", &p), probs, lse("lse", &p)];
                signature("route", operands, results)
            }
            Self::RouteBackward {
                problem: p,
                mask: masked,
                of,
            } => {
                let gradient = match of {
                    TopkGradient::Weights => weights("dweights", &p),
                    TopkGradient::Probs => logits("dprobs", &p),
                    TopkGradient::Lse => lse("dlse", &p),
                };
                let operands = [
                    gradient,
                    logits("logits", &p),
                    mask(masked, &p),
                    indices(&p),
                    weights("weights", &p),
                    logits("probs", &p),
                    lse("lse", &p),
                ];
                signature("route backward", operands, [logits("dlogits", &p)])
            }
            Self::Hash {
                problem,
                hidden,
                element,
                mask: masked,
                ..
            } => {
                let p = problem.routing();
                let x = floats("x", [p.tokens(), hidden], element);
                let results = [indices(&p), weights("weights", &p)];
                signature("hash", [Some(x), mask(masked, &p)], results)
            }
            Self::Load(load) => {
                let counts = words("counts", [load.groups(), load.routing().experts()]);
                signature("load", [indices(&load.routing())], [Some(counts)])
            }
            Self::Sort {
                problem,
                mask: masked,
            } => {
                let p = problem.routing();
                let factors = problem.factors().then(|| f32s("factors", [p.experts()]));
                let operands = [
                    weights("weights", &p),
                    indices(&p),
                    mask(masked, &p),
                    factors,
                ];
                let results = [
                    Some(words("order", [p.slots()])),
                    Some(words("offsets", [p.experts() + 1])),
                    Some(words("positions", [p.slots()])),
                    Some(words("dropped", [1])),
                ];
                signature("sort", operands, results)
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), ShapeError> {
        match self {
            Self::Logits { problem, .. }
            | Self::LogitsBackward { problem, .. }
            | Self::Route { problem, .. }
            | Self::RouteBackward { problem, .. } => problem.check(),
            Self::Hash {
                problem, hidden, ..
            } => {
                problem.check()?;
                match problem.key() {
                    HashKey::Content { hidden: hashed, .. } => {
                        ShapeError::check("hashed columns", *hidden, hashed)
                    }
                    HashKey::Position { .. } => Ok(()),
                }
            }
            Self::Load(problem) => problem.check(),
            Self::Sort { problem, .. } => problem.check(),
        }
    }
}
