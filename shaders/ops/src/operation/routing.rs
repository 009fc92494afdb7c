//! Router logits, and the choice of experts.

use super::operands::{Computed, Operands};
use super::{HostTensor, Signature, signature, signature_where};
use crate::element::Element;
use crate::error::Mismatch;
use crate::routing::{
    HashKey, HashProblem, LoadProblem, Problem, Routed, TopkGradient, hash_reference,
    load_reference, logits_backward_reference, logits_reference, reference_with_bias,
    topk_backward_reference,
};
use serde::{Deserialize, Serialize};

/// An operation of [`crate::routing`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Routing {
    /// Router logits x · Wgᵀ in f32, or their gradients.
    Logits {
        /// The numbers of tokens and experts.
        problem: Problem,
        /// Values of a token H.
        hidden: usize,
        /// Type of x and Wg.
        element: Element,
        /// Whether to compute the gradients of x and Wg instead of the logits.
        backward: bool,
    },
    /// The choice of experts by their scores.
    Route {
        /// The description of the choice.
        problem: Problem,
        /// Whether a mask says which experts may be chosen.
        mask: bool,
        /// Whether a bias is added to the scores that decide the choice.
        bias: bool,
    },
    /// The gradient of the logits through one output of the choice.
    RouteBackward {
        /// The description of the choice.
        problem: Problem,
        /// Whether a mask said which experts might be chosen.
        mask: bool,
        /// The output whose gradient is given.
        of: TopkGradient,
    },
    /// The choice of experts by hash.
    Hash {
        /// The description of the choice.
        problem: HashProblem,
        /// Values of a row of x. x is an operand even when only the position is hashed, because it determines the device.
        hidden: usize,
        /// Type of x.
        element: Element,
        /// The seed; different seeds give different choices.
        seed: u32,
        /// Whether a mask says which experts may be chosen.
        mask: bool,
    },
    /// Counts of the choices per expert.
    Load(LoadProblem),
}

impl Routing {
    pub(super) fn signature(&self) -> Signature {
        match *self {
            Self::Logits {
                problem,
                hidden,
                element,
                backward,
            } => {
                let names = ["router logits", "router logits backward"];
                let sizes = wide(&problem, hidden);
                signature(names[usize::from(backward)], element, &sizes)
            }
            Self::Route {
                problem,
                mask,
                bias,
            } => signature_where(
                "route",
                Element::F32,
                &sizes(&problem),
                |tensor| match tensor {
                    "mask" => mask,
                    "bias" => bias,
                    _ => true,
                },
            ),
            Self::RouteBackward { problem, mask, of } => {
                let sizes = sizes(&problem);
                signature_where(
                    "route backward",
                    Element::F32,
                    &sizes,
                    |tensor| match tensor {
                        "dweights" => of == TopkGradient::Weights,
                        "dprobs" => of == TopkGradient::Probs,
                        "dlse" => of == TopkGradient::Lse,
                        "mask" => mask,
                        _ => true,
                    },
                )
            }
            Self::Hash {
                problem,
                hidden,
                element,
                mask,
                ..
            } => {
                let sizes = wide(&problem.routing(), hidden);
                signature_where("hash", element, &sizes, |tensor| tensor != "mask" || mask)
            }
            Self::Load(p) => {
                let [t, e, k, ..] = sizes(&p.routing());
                signature("load", Element::F32, &[t, e, k, ('G', p.groups())])
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), Mismatch> {
        match self {
            Self::Logits { problem, .. }
            | Self::Route { problem, .. }
            | Self::RouteBackward { problem, .. } => problem.check(),
            Self::Hash {
                problem, hidden, ..
            } => {
                problem.check()?;
                match problem.key() {
                    HashKey::Content { hidden: hashed, .. } => {
                        Mismatch::check("hashed columns", *hidden, hashed)
                    }
                    HashKey::Position { .. } => Ok(()),
                }
            }
            Self::Load(problem) => problem.check(),
        }
    }

    pub(super) fn compute(&self, b: &Operands<'_>) -> Result<Computed, Mismatch> {
        let mask = b.mask();
        Ok(match self {
            Self::Logits {
                hidden,
                backward: false,
                ..
            } => {
                let logits = logits_reference(&b.f32s("x"), &b.f32s("Wg"), *hidden);
                vec![("logits", logits.into())]
            }
            Self::Logits { hidden, .. } => {
                let [d, x, w] = ["dlogits", "x", "Wg"].map(|name| b.f32s(name));
                let (dx, dw) = logits_backward_reference(&d, &x, &w, *hidden);
                vec![("dx", dx.into()), ("dWg", dw.into())]
            }
            Self::Route { problem, .. } => {
                let (logits, bias) = (b.f32s("logits"), b.maybe_f32s("bias"));
                let routed =
                    reference_with_bias(problem, &logits, mask.as_deref(), bias.as_deref());
                vec![
                    ("indices", routed.indices.into()),
                    ("weights", routed.weights.into()),
                    ("probs", routed.probs.into()),
                    ("lse", routed.lse.into()),
                ]
            }
            Self::RouteBackward { problem, of, .. } => {
                let routed = Routed {
                    indices: b.words("indices").to_vec(),
                    weights: b.floats("weights").to_vec(),
                    probs: b.floats("probs").to_vec(),
                    lse: b.floats("lse").to_vec(),
                };
                let gradient = b.floats(match of {
                    TopkGradient::Weights => "dweights",
                    TopkGradient::Probs => "dprobs",
                    TopkGradient::Lse => "dlse",
                });
                let (logits, mask) = (b.f32s("logits"), mask.as_deref());
                let d = topk_backward_reference(problem, *of, &logits, mask, &routed, gradient);
                vec![("dlogits", d.into())]
            }
            Self::Hash { problem, seed, .. } => {
                let (indices, weights) =
                    hash_reference(problem, *seed, &b.f32s("x"), mask.as_deref());
                let weights = HostTensor::of_f32(&weights);
                vec![("indices", indices.into()), ("weights", weights)]
            }
            Self::Load(problem) => {
                let counts = load_reference(problem, b.words("indices"));
                vec![("counts", counts.into())]
            }
        })
    }
}

/// The size letters of a routing: tokens, experts, choices per token, slots, and E + 1 offsets.
pub(super) fn sizes(p: &Problem) -> [(char, usize); 5] {
    let (tokens, experts) = (p.tokens(), p.experts());
    [
        ('T', tokens),
        ('E', experts),
        ('K', p.top_k()),
        ('S', p.slots()),
        ('B', experts + 1),
    ]
}

/// The size letters of [`sizes`], and H for `hidden`.
fn wide(p: &Problem, hidden: usize) -> [(char, usize); 6] {
    let [t, e, k, s, b] = sizes(p);
    [t, e, k, s, b, ('H', hidden)]
}
