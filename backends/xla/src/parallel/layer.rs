//! The layer itself: y_t = Σ_k w_tk · expert_(t,k)(x_t), and its gradients.

use crate::ElementType;
use crate::custom::Lower;
use crate::custom::experts::{Activation, Experts};
use crate::custom::router::{Logits, LogitsBackward, Route, RouteBackward, RouteOutput, Score};
use crate::custom::sort::{Capacity, Sort};
use crate::stablehlo::{Builder, TensorType, Value};

/// A mixture-of-experts layer and its batch.
///
/// Its weights, in the order in which programs take and give them: router \[E,H\], w_in \[E, F or 2F (gate rows,
/// then up rows), H\], w_out \[E,H,F\], and with biases b_in \[E, F or 2F\], b_out \[E,H\].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layer {
    /// Tokens T of the whole batch.
    pub tokens: usize,
    /// Width of a token H.
    pub hidden: usize,
    /// Width of an expert F.
    pub inter: usize,
    /// Experts E.
    pub experts: usize,
    /// Experts of a token K.
    pub top_k: usize,
    /// Between the two products of an expert.
    pub activation: Activation,
    /// Gate and up projections instead of one.
    pub gated: bool,
    /// Whether experts have biases.
    pub bias: bool,
    /// How a logit becomes a score.
    pub score: Score,
    /// Divide the chosen scores by their sum.
    pub renormalize: bool,
    /// The most slots that an expert takes of each device's tokens, the heaviest; all without.
    pub capacity: Option<usize>,
    /// Type of tokens and weights: f32, bf16 or f16. Sums are f32.
    pub element: ElementType,
}

/// Why devices can't share a layer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// A size is 0.
    #[error("expected at least one {of}, got 0")]
    Zero {
        /// What there is none of.
        of: &'static str,
    },
    /// Something isn't a multiple of the devices.
    #[error("expected {of} to be a multiple of {devices} devices, got {total}")]
    Divide {
        /// What is to be divided.
        of: &'static str,
        /// How much of it there is.
        total: usize,
        /// The devices.
        devices: usize,
    },
    /// A token has more experts than there are.
    #[error("expected at most {experts} experts for a token, got {top_k}")]
    Choices {
        /// Experts of a token.
        top_k: usize,
        /// Experts.
        experts: usize,
    },
    /// The layer doesn't compute with this type.
    #[error("expected f32, bf16 or f16, got {element}")]
    Element {
        /// The type.
        element: ElementType,
    },
    /// More slots than 32-bit numbers count.
    #[error("expected at most {most} slots, got {slots}")]
    Slots {
        /// Slots that there are.
        slots: usize,
        /// Slots that there may be.
        most: usize,
    },
}

/// Fewer than half of what an i32 counts, so that no sum of two of them overflows.
const MOST_SLOTS: usize = 1 << 30;

impl Layer {
    /// Slots S = T·K.
    pub fn slots(&self) -> usize {
        self.tokens * self.top_k
    }

    /// Types of the weights, with `experts` of the experts.
    pub fn weights(&self, experts: usize) -> Vec<TensorType> {
        let (h, f, columns) = (self.hidden, self.inter, self.columns());
        let ty = |shape: &[usize]| TensorType::new(shape, self.element);
        let mut types = vec![
            ty(&[self.experts, h]),
            ty(&[experts, columns, h]),
            ty(&[experts, h, f]),
        ];
        if self.bias {
            types.extend([ty(&[experts, columns]), ty(&[experts, h])]);
        }
        types
    }

    fn columns(&self) -> usize {
        self.inter * if self.gated { 2 } else { 1 }
    }

    /// The type of tokens.
    pub(super) fn rows(&self) -> TensorType {
        TensorType::new([self.tokens, self.hidden], self.element)
    }

    pub(super) fn check(&self, devices: usize) -> Result<(), LayerError> {
        let sizes = [
            (devices, "device"),
            (self.tokens, "token"),
            (self.hidden, "column of a token"),
            (self.inter, "column of an expert"),
            (self.experts, "expert"),
            (self.top_k, "expert of a token"),
        ];
        if let Some((_, of)) = sizes.into_iter().find(|(size, _)| *size == 0) {
            return Err(LayerError::Zero { of });
        }
        if self.top_k > self.experts {
            let (top_k, experts) = (self.top_k, self.experts);
            return Err(LayerError::Choices { top_k, experts });
        }
        let element = self.element;
        if ![ElementType::F32, ElementType::BF16, ElementType::F16].contains(&element) {
            return Err(LayerError::Element { element });
        }
        let slots = self.tokens.saturating_mul(self.top_k);
        if slots > MOST_SLOTS {
            let most = MOST_SLOTS;
            return Err(LayerError::Slots { slots, most });
        }
        divides("tokens", self.tokens, devices)
    }

    /// `experts` of the layer's experts, for `rows` rows of one slot each.
    pub(super) fn some_experts(&self, experts: usize, rows: usize) -> Experts {
        Experts {
            tokens: rows,
            top_k: 1,
            experts,
            ..self.all_experts(rows)
        }
    }

    /// The experts, whose sorted rows are at most `row_bound`.
    pub(super) fn all_experts(&self, row_bound: usize) -> Experts {
        Experts {
            tokens: self.tokens,
            top_k: self.top_k,
            experts: self.experts,
            hidden: self.hidden,
            inter: self.inter,
            row_bound,
            activation: self.activation,
            gated: self.gated,
            bias: self.bias,
        }
    }

    fn logits(&self) -> Logits {
        Logits {
            tokens: self.tokens,
            hidden: self.hidden,
            experts: self.experts,
        }
    }

    fn route(&self) -> Route {
        Route {
            tokens: self.tokens,
            experts: self.experts,
            top_k: self.top_k,
            score: self.score,
            renormalize: self.renormalize,
            groups: None,
            scale: 1.0,
            mask: false,
            bias: false,
        }
    }

    /// The choice of experts and the slots by expert.
    pub(super) fn routed(&self, b: &mut Builder, x: Value, router: Value) -> Routed {
        let logits = self.logits().lower(b, &[x, router])[0];
        let chosen = self.route().lower(b, &[logits]);
        let [indices, weights, probs, lse] = [chosen[0], chosen[1], chosen[2], chosen[3]];
        let sort = Sort {
            tokens: self.tokens,
            top_k: self.top_k,
            experts: self.experts,
            capacity: self.capacity.map(|even| Capacity { even, least: 0 }),
            mask: false,
            factors: false,
        };
        let sorted = sort.lower(b, &[weights, indices]);
        Routed {
            logits,
            indices,
            weights,
            probs,
            lse,
            order: sorted[0],
            offsets: sorted[1],
            positions: sorted[2],
        }
    }

    /// Gradients through the router weights' gradient \[T,K\], f32: of x \[T,H\] and of the router \[E,H\].
    pub(super) fn router_backward(
        &self,
        b: &mut Builder,
        (x, router): (Value, Value),
        routed: &Routed,
        dweights: Value,
    ) -> [Value; 2] {
        let backward = RouteBackward {
            route: self.route(),
            of: RouteOutput::Weights,
        };
        let r = routed;
        let dlogits = backward.lower(
            b,
            &[dweights, r.logits, r.indices, r.weights, r.probs, r.lse],
        );
        // In f32, so that sums over devices are not of rounded numbers.
        let [x, router] = [x, router].map(|value| b.convert(value, ElementType::F32));
        let logits = LogitsBackward {
            logits: self.logits(),
        };
        let gradients = logits.lower(b, &[x, router, dlogits[0]]);
        [gradients[0], gradients[1]]
    }

    /// The sum of two gradients of x, f32 and of its type.
    pub(super) fn sum_x(&self, b: &mut Builder, router: Value, experts: Value) -> Value {
        let experts = b.convert(experts, ElementType::F32);
        let sum = b.add(experts, router);
        b.convert(sum, self.element)
    }
}

/// Whether every device gets the same of it.
pub(super) fn divides(of: &'static str, total: usize, devices: usize) -> Result<(), LayerError> {
    match total.is_multiple_of(devices) {
        true => Ok(()),
        false => Err(LayerError::Divide { of, total, devices }),
    }
}

/// The choice of experts and the slots by expert, as [`crate::custom::router`] and
/// [`crate::custom::sort`] have them.
pub(super) struct Routed {
    pub(super) logits: Value,
    pub(super) indices: Value,
    pub(super) weights: Value,
    pub(super) probs: Value,
    pub(super) lse: Value,
    pub(super) order: Value,
    pub(super) offsets: Value,
    pub(super) positions: Value,
}

/// The layer's weights on one device.
pub(super) struct Weights {
    /// \[E,H\].
    pub(super) router: Value,
    /// w_in, w_out, and the biases.
    pub(super) stacks: Vec<Value>,
}

impl Weights {
    /// Weights in the layer's order.
    pub(super) fn of(mut values: Vec<Value>) -> Self {
        let stacks = values.split_off(1);
        Self {
            router: values[0],
            stacks,
        }
    }
}

/// Gradients on one device.
pub(super) struct Gradients {
    /// \[T/P,H\].
    pub(super) x: Value,
    /// In the order of the weights.
    pub(super) weights: Vec<Value>,
}
