//! The layer itself: y_t = Σ_k w_tk · expert_(t,k)(x_t), and its gradients.

use crate::ElementType::{self, F32};
use crate::custom;
use crate::stablehlo::{Builder, TensorType, Value};
use moebius_ops::grouped_gemm::Activation;
use moebius_ops::moe::{self, sorting};
use moebius_ops::permute::Capacity;
use moebius_ops::routing::{self, Score, TopkGradient};
use moebius_ops::{Element, Operation, Routing, ShapeError};

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
    /// Sizes that don't fit each other or the devices, or another type than the layer computes with.
    #[error("expected {expected}, got {got}")]
    Unfit {
        /// What would fit.
        expected: String,
        /// What there is.
        got: String,
    },
    /// An operation doesn't take such sizes.
    #[error(transparent)]
    Sizes(#[from] ShapeError),
}

impl LayerError {
    /// Refuses what doesn't fit.
    pub(super) fn check(
        fits: bool,
        expected: impl ToString,
        got: impl ToString,
    ) -> Result<(), Self> {
        match fits {
            true => Ok(()),
            false => Err(Self::Unfit {
                expected: expected.to_string(),
                got: got.to_string(),
            }),
        }
    }
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
        for (size, of) in sizes {
            LayerError::check(size > 0, format!("at least one {of}"), size)?;
        }
        let most = format!("at most {} experts for a token", self.experts);
        LayerError::check(self.top_k <= self.experts, most, self.top_k)?;
        let floats = [F32, ElementType::BF16, ElementType::F16].contains(&self.element);
        LayerError::check(floats, "f32, bf16 or f16", self.element)?;
        let slots = self.tokens.saturating_mul(self.top_k);
        let most = format!("at most {MOST_SLOTS} slots");
        LayerError::check(slots <= MOST_SLOTS, most, slots)?;
        let some = self.capacity != Some(0);
        LayerError::check(some, "at least one slot of an expert", 0)?;
        divides("tokens", self.tokens, devices)?;
        self.all_experts()?.check()?;
        // Slots as tokens of one choice.
        routing::Problem::new(slots, self.experts, 1)?;
        Ok(())
    }

    /// The type of tokens and weights.
    pub(super) fn float(&self) -> Element {
        match self.element {
            ElementType::F16 => Element::F16,
            ElementType::BF16 => Element::Bf16,
            _ => Element::F32,
        }
    }

    /// `experts` of the layer's experts, for `rows` rows of one slot each.
    pub(super) fn some_experts(
        &self,
        experts: usize,
        rows: usize,
    ) -> Result<moe::Problem, ShapeError> {
        Ok(moe::Problem {
            routing: routing::Problem::new(rows, experts, 1)?,
            row_bound: rows,
            ..self.all_experts()?
        })
    }

    /// The experts, for all slots.
    pub(super) fn all_experts(&self) -> Result<moe::Problem, ShapeError> {
        Ok(moe::Problem {
            routing: self.routing()?,
            hidden: self.hidden,
            inter: self.inter,
            element: self.float(),
            gated: self.gated,
            activation: self.activation,
            bias: self.bias,
            capacity: None,
            row_bound: self.slots(),
        })
    }

    /// The choice of experts.
    pub(super) fn routing(&self) -> Result<routing::Problem, ShapeError> {
        let problem = routing::Problem::new(self.tokens, self.experts, self.top_k)?;
        Ok(problem.with_score(self.score, self.renormalize))
    }

    /// The choice of experts and the slots by expert.
    pub(super) fn routed(&self, b: &Builder, x: Value, router: Value) -> Routed {
        let problem = checked(self.routing());
        let logits = Routing::Logits {
            problem,
            hidden: self.hidden,
            element: self.float(),
            backward: false,
        };
        let logits = lower(b, logits, &[x, router])[0];
        let route = Routing::Route {
            problem,
            mask: false,
            bias: false,
        };
        let chosen = lower(b, route, &[logits]);
        let [indices, weights, probs, lse] = [chosen[0], chosen[1], chosen[2], chosen[3]];
        // So small a share that the least of an expert is its capacity.
        let capacity = |min| Capacity {
            factor: f64::MIN_POSITIVE,
            min,
        };
        let capacity = self.capacity.map(capacity);
        let sort = Routing::Sort {
            problem: checked(sorting::Problem::new(&problem, capacity, false)),
            mask: false,
        };
        let sorted = lower(b, sort, &[weights, indices]);
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
        b: &Builder,
        (x, router): (Value, Value),
        routed: &Routed,
        dweights: Value,
    ) -> [Value; 2] {
        let problem = checked(self.routing());
        let backward = Routing::RouteBackward {
            problem,
            mask: false,
            of: TopkGradient::Weights,
        };
        let r = routed;
        let operands = [dweights, r.logits, r.indices, r.weights, r.probs, r.lse];
        let dlogits = lower(b, backward, &operands)[0];
        // In f32, so that sums over devices are not of rounded numbers.
        let [x, router] = [x, router].map(|value| b.convert(value, F32));
        let logits = Routing::Logits {
            problem,
            hidden: self.hidden,
            element: Element::F32,
            backward: true,
        };
        let gradients = lower(b, logits, &[x, router, dlogits]);
        [gradients[0], gradients[1]]
    }

    /// The sum of two gradients of x, f32 and of its type.
    pub(super) fn sum_x(&self, b: &Builder, router: Value, experts: Value) -> Value {
        b.convert(b.add(b.convert(experts, F32), router), self.element)
    }
}

/// A problem of a layer whose sizes were checked.
pub(super) fn checked<T>(problem: Result<T, ShapeError>) -> T {
    problem.unwrap_or_else(|error| unreachable!("a checked layer: {error}"))
}

/// The results of an operation of such a layer.
pub(super) fn lower(b: &Builder, operation: impl Into<Operation>, inputs: &[Value]) -> Vec<Value> {
    let results = custom::lower(&operation.into(), b, inputs);
    results.unwrap_or_else(|error| unreachable!("a checked layer: {error}"))
}

/// Whether every device gets the same of it.
pub(super) fn divides(of: &'static str, total: usize, devices: usize) -> Result<(), LayerError> {
    let expected = format!("{of} to be a multiple of {devices} devices");
    LayerError::check(total.is_multiple_of(devices), expected, total)
}

/// The choice of experts and the slots by expert, as [`Routing`] has them.
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
