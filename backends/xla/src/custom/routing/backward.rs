//! Gradients of the logits, from that of the weights, the probabilities or the logsumexp, by the formulas of
//! [`moebius_ops::routing::TopkGradient`].

use super::choose::{available, shape, sigmoid};
use crate::custom::values::{along, words};
use crate::stablehlo::{Along, Builder, Value};
use moebius_ops::routing::{Problem, Score, TopkGradient};
use moebius_pjrt::{ElementType, TensorType};

/// What the choice read and wrote, and the incoming gradient.
struct Operands {
    gradient: Value,
    logits: Value,
    mask: Option<Value>,
    indices: Value,
    weights: Value,
    probs: Value,
    lse: Value,
}

/// σ'(x) = σ(x)·σ(−x), without cancellation.
fn sigmoid_slope(b: &Builder, x: Value) -> Value {
    let negative = b.neg(x);
    let (above, below) = (sigmoid(b, x), sigmoid(b, negative));
    b.mul(above, below)
}

/// `values`, 0 where `factor` is 0.
fn where_possible(b: &Builder, factor: Value, values: Value) -> Value {
    b.select(b.ne(factor, 0.0), values, 0.0)
}

fn through_weights(b: &Builder, p: &Problem, at: &Operands) -> Value {
    let (shape, scale) = (shape(p), f64::from(p.scale()));
    let indices = words(b, at.indices);
    let found = b.lt(indices, p.experts() as f64);
    let dot = b.sum(b.select(found, b.mul(at.weights, at.gradient), 0.0), &[1]);
    let of_experts = [at.weights, at.gradient].map(|x| by_expert(b, indices, x, p.experts()));
    let [weight, gradient] = of_experts;
    let mut dot = along(b, dot, &shape, 0);
    if p.renormalize() {
        // Weights that are all 0 have no gradient, rather than 0 / 0.
        let inverse = if scale == 0.0 { 0.0 } else { scale.recip() };
        dot = b.mul(dot, inverse);
        let centred = b.sub(gradient, dot);
        let slope = match p.score() {
            Score::Softmax => weight,
            Score::Sigmoid => b.mul(weight, sigmoid(b, b.neg(at.logits))),
        };
        return where_possible(b, weight, b.mul(slope, centred));
    }
    let scaled = b.mul(gradient, scale);
    match p.score() {
        Score::Softmax => where_possible(b, at.probs, b.mul(at.probs, b.sub(scaled, dot))),
        Score::Sigmoid => where_possible(b, gradient, b.mul(sigmoid_slope(b, at.logits), scaled)),
    }
}

fn through_probs(b: &Builder, p: &Problem, at: &Operands) -> Value {
    let values = match p.score() {
        Score::Softmax => {
            let product = where_possible(b, at.probs, b.mul(at.probs, at.gradient));
            let centred = b.sub(at.gradient, Along(b.sum(product, &[1]), [0]));
            b.mul(at.probs, centred)
        }
        Score::Sigmoid => b.mul(sigmoid_slope(b, at.logits), at.gradient),
    };
    where_possible(b, at.probs, values)
}

fn through_lse(b: &Builder, p: &Problem, at: &Operands) -> Value {
    let shape = shape(p);
    let [lse, gradient] = [at.lse, at.gradient].map(|x| along(b, x, &shape, 0));
    let values = b.mul(b.exp(b.sub(at.logits, lse)), gradient);
    let Some(mask) = at.mask else {
        return values;
    };
    b.select(mask, values, 0.0)
}

/// \[T,E\]: the values \[T,K\] of the chosen experts, 0 for the others.
fn by_expert(b: &Builder, indices: Value, values: Value, experts: usize) -> Value {
    let mut shape = b.shape(indices);
    shape.push(experts);
    let expert = b.iota(TensorType::new(shape.clone(), ElementType::U32), 2);
    let here = b.eq(b.broadcast(indices, &shape, &[0, 1]), expert);
    let values = b.select(here, b.broadcast(values, &shape, &[0, 1]), 0.0);
    b.sum(values, &[1])
}

/// dlogits \[T,E\] of the incoming gradient, logits, the mask if there is one, indices, weights, probs and lse.
pub(super) fn through(
    b: &Builder,
    p: &Problem,
    (mask, of): (bool, TopkGradient),
    inputs: &[Value],
) -> Value {
    let rest = &inputs[2 + usize::from(mask)..];
    let at = Operands {
        gradient: inputs[0],
        logits: inputs[1],
        mask: mask.then(|| available(b, inputs[2], &shape(p))),
        indices: rest[0],
        weights: rest[1],
        probs: rest[2],
        lse: rest[3],
    };
    match of {
        TopkGradient::Weights => through_weights(b, p, &at),
        TopkGradient::Probs => through_probs(b, p, &at),
        TopkGradient::Lse => through_lse(b, p, &at),
    }
}
