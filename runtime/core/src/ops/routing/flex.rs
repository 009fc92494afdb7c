//! The router on Flex. The hash is an integer function with one definition.

use crate::ops::host::{Floats, Operands, cast_like, float_tensor, floats, int_tensor, words};
use crate::ops::tensors::Value;
use burn::backend::Flex;
use moebius_host::routing::{self as host, Chosen};
use moebius_ops::Routing;
use moebius_ops::routing::{self, HashProblem, LoadProblem, Problem, TopkGradient};

pub(in crate::ops) fn run(operation: &Routing, b: Operands) -> Vec<Value<Flex>> {
    match operation {
        Routing::Logits {
            problem,
            hidden,
            backward,
            ..
        } => logits(problem, *hidden, *backward, b),
        Routing::Route { problem, .. } => route(problem, b),
        Routing::RouteBackward { problem, of, .. } => route_backward(problem, *of, b),
        Routing::Hash { problem, seed, .. } => hash(problem, *seed, b),
        Routing::Load(problem) => load(problem, b),
    }
}

/// The mask's entries as booleans; everything is available without one.
fn available(b: &mut Operands, experts: usize) -> Vec<bool> {
    match b.maybe_word("mask").map(words) {
        None => vec![true; experts],
        Some(mask) => mask.iter().map(|word| *word != 0).collect(),
    }
}

/// The logits, or the gradients of what they are made of.
fn logits(problem: &Problem, hidden: usize, backward: bool, mut b: Operands) -> Vec<Value<Flex>> {
    let (tokens, experts) = (problem.tokens(), problem.experts());
    let sizes = [tokens, hidden, experts];
    let dtypes = ["x", "Wg"].map(|name| b.get(name).float().dtype());
    let floats = ["x", "Wg", "dlogits"].map(|name| Floats::of(&mut b, name));
    let [x, w, dlogits] = floats.each_ref().map(Floats::values);
    if !backward {
        let logits = host::logits(x, w, sizes);
        return vec![Value::Float(float_tensor(logits, &[tokens, experts]))];
    }
    let [dx, dw] = host::logits_backward([x, w, dlogits], sizes);
    let dx = float_tensor(dx, &[tokens, hidden]);
    let dw = float_tensor(dw, &[experts, hidden]);
    let gradients = [dx, dw].into_iter().zip(dtypes);
    gradients
        .map(|(gradient, dtype)| Value::Float(cast_like(gradient, dtype)))
        .collect()
}

fn route(problem: &Problem, mut b: Operands) -> Vec<Value<Flex>> {
    let logits = floats(b.float("logits"));
    let available = available(&mut b, problem.experts());
    let bias = b.maybe_float("bias").map(floats);
    let chosen = host::route(problem, &logits, &available, bias.as_deref());
    let (t, k, e) = (problem.tokens(), problem.top_k(), problem.experts());
    vec![
        Value::Word(int_tensor(&chosen.indices, &[t, k])),
        Value::Float(float_tensor(chosen.weights, &[t, k])),
        Value::Float(float_tensor(chosen.probs, &[t, e])),
        Value::Float(float_tensor(chosen.logsumexp, &[t])),
    ]
}

fn hash(problem: &HashProblem, seed: u32, mut b: Operands) -> Vec<Value<Flex>> {
    let sizes = problem.routing();
    let available = available(&mut b, sizes.experts());
    let x = floats(b.float("x"));
    let (indices, weights) = routing::hash_reference(problem, seed, &x, Some(&available));
    let shape = [sizes.tokens(), sizes.top_k()];
    let (indices, weights) = (int_tensor(&indices, &shape), float_tensor(weights, &shape));
    vec![Value::Word(indices), Value::Float(weights)]
}

fn load(problem: &LoadProblem, mut b: Operands) -> Vec<Value<Flex>> {
    let counts = host::load(problem, &words(b.word("indices")));
    let shape = [problem.groups(), problem.routing().experts()];
    vec![Value::Word(int_tensor(&counts, &shape))]
}

fn route_backward(problem: &Problem, of: TopkGradient, mut b: Operands) -> Vec<Value<Flex>> {
    let available = available(&mut b, problem.experts());
    let gradient = floats(b.float(match of {
        TopkGradient::Weights => "dweights",
        TopkGradient::Probs => "dprobs",
        TopkGradient::Lse => "dlse",
    }));
    let logits = floats(b.float("logits"));
    let chosen = Chosen {
        indices: words(b.word("indices")),
        weights: floats(b.float("weights")),
        ..Chosen::default()
    };
    let dlogits = host::route_backward(problem, of, (&logits, &available), &chosen, &gradient);
    let shape = [problem.tokens(), problem.experts()];
    vec![Value::Float(float_tensor(dlogits, &shape))]
}
