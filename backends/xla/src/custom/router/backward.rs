//! Gradients of the logits, from that of the weights, the probabilities or the logsumexp, by the formulas of
//! [`moebius_ops::routing::TopkGradient`].

use super::choose::{available, shape, sigmoid};
use crate::ElementType;
use crate::custom::{along, words};
use crate::stablehlo::{Binary, Builder, Compare, Reduction, TensorType, Unary, Value};
use moebius_ops::routing::{Problem, Score, TopkGradient};

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
fn sigmoid_slope(b: &mut Builder, x: Value) -> Value {
    let negative = b.unary(Unary::Negate, x);
    let (above, below) = (sigmoid(b, x), sigmoid(b, negative));
    b.mul(above, below)
}

/// `values`, 0 where `factor` is 0.
fn where_possible(b: &mut Builder, factor: Value, values: Value) -> Value {
    let some = b.compare_scalar(Compare::Ne, factor, 0.0);
    let zero = b.splat_like(0.0, values);
    b.select(some, values, zero)
}

fn through_weights(b: &mut Builder, p: &Problem, at: &Operands) -> Value {
    let (shape, scale) = (shape(p), f64::from(p.scale()));
    let indices = words(b, at.indices);
    let found = b.compare_scalar(Compare::Lt, indices, p.experts() as f64);
    let product = b.mul(at.weights, at.gradient);
    let zero = b.splat_like(0.0, product);
    let product = b.select(found, product, zero);
    let dot = b.reduce(Reduction::Sum, product, &[1]);
    let of_experts = [at.weights, at.gradient].map(|x| by_expert(b, indices, x, p.experts()));
    let [weight, gradient] = of_experts;
    let mut dot = along(b, dot, &shape, 0);
    if p.renormalize() {
        // Weights that are all 0 have no gradient, rather than 0 / 0.
        let inverse = if scale == 0.0 { 0.0 } else { scale.recip() };
        dot = b.binary_scalar(Binary::Multiply, dot, inverse);
        let centred = b.sub(gradient, dot);
        let slope = match p.score() {
            Score::Softmax => weight,
            Score::Sigmoid => {
                let negative = b.unary(Unary::Negate, at.logits);
                let below = sigmoid(b, negative);
                b.mul(weight, below)
            }
        };
        let values = b.mul(slope, centred);
        return where_possible(b, weight, values);
    }
    let scaled = b.binary_scalar(Binary::Multiply, gradient, scale);
    match p.score() {
        Score::Softmax => {
            let centred = b.sub(scaled, dot);
            let values = b.mul(at.probs, centred);
            where_possible(b, at.probs, values)
        }
        Score::Sigmoid => {
            let slope = sigmoid_slope(b, at.logits);
            let values = b.mul(slope, scaled);
            where_possible(b, gradient, values)
        }
    }
}

fn through_probs(b: &mut Builder, p: &Problem, at: &Operands) -> Value {
    let values = match p.score() {
        Score::Softmax => {
            let product = b.mul(at.probs, at.gradient);
            let product = where_possible(b, at.probs, product);
            let dot = b.reduce(Reduction::Sum, product, &[1]);
            let dot = along(b, dot, &shape(p), 0);
            let centred = b.sub(at.gradient, dot);
            b.mul(at.probs, centred)
        }
        Score::Sigmoid => {
            let slope = sigmoid_slope(b, at.logits);
            b.mul(slope, at.gradient)
        }
    };
    where_possible(b, at.probs, values)
}

fn through_lse(b: &mut Builder, p: &Problem, at: &Operands) -> Value {
    let shape = shape(p);
    let [lse, gradient] = [at.lse, at.gradient].map(|x| along(b, x, &shape, 0));
    let below = b.sub(at.logits, lse);
    let share = b.unary(Unary::Exponential, below);
    let values = b.mul(share, gradient);
    let Some(mask) = at.mask else {
        return values;
    };
    let zero = b.splat_like(0.0, values);
    b.select(mask, values, zero)
}

/// \[T,E\]: the values \[T,K\] of the chosen experts, 0 for the others.
fn by_expert(b: &mut Builder, indices: Value, values: Value, experts: usize) -> Value {
    let mut shape = b.shape(indices);
    shape.push(experts);
    let expert = b.iota(TensorType::new(shape.clone(), ElementType::U32), 2);
    let chosen = b.broadcast(indices, &shape, &[0, 1]);
    let here = b.compare(Compare::Eq, chosen, expert);
    let values = b.broadcast(values, &shape, &[0, 1]);
    let zero = b.splat_like(0.0, values);
    let values = b.select(here, values, zero);
    b.reduce(Reduction::Sum, values, &[1])
}

/// dlogits \[T,E\] of the incoming gradient, logits, the mask if there is one, indices, weights, probs and lse.
pub(super) fn through(
    b: &mut Builder,
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
