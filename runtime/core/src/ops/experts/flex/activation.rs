//! Activations of the first product, and their slopes.

use crate::ops::host::{Rows, columns_of, float_tensor, floats};
use burn::backend::ops::{ActivationOps, FloatTensorOps};
use burn::backend::{Flex, TensorMetadata};
use moebius_ops::grouped_gemm::Activation;
use moebius_ops::moe::Problem;

/// Gate and up columns of the first product; the gate alone without gating.
fn gate_and_up(problem: &Problem, pre: &Rows) -> (Rows, Option<Rows>) {
    if !problem.gated {
        return (pre.clone(), None);
    }
    let f = problem.inter;
    let gate = columns_of(pre.clone(), 0, f);
    (gate, Some(columns_of(pre.clone(), f, 2 * f)))
}

/// The activation, and the product with the up projection when gated.
pub(super) fn activated(problem: &Problem, pre: Rows) -> Rows {
    let (gate, up) = match problem.gated {
        true => gate_and_up(problem, &pre),
        false => (pre, None),
    };
    let act = apply(problem.activation, gate);
    match up {
        Some(up) => Flex::float_mul(act, up),
        None => act,
    }
}

/// act(x) of every element.
pub(in crate::ops) fn apply(activation: Activation, x: Rows) -> Rows {
    match activation {
        Activation::Relu => Flex::relu(x),
        Activation::Gelu => Flex::gelu(x),
        Activation::Silu => Flex::float_mul(x.clone(), Flex::sigmoid(x)),
        Activation::Mish => map(&x, |x| x * softplus(x).tanh()),
    }
}

fn softplus(x: f32) -> f32 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn map(x: &Rows, f: impl Fn(f32) -> f32) -> Rows {
    let shape = x.shape();
    let values = floats(x.clone()).into_iter().map(f).collect();
    float_tensor(values, &[shape[0], shape[1]])
}

/// d act(x) / dx of every element.
fn slopes(activation: Activation, x: &Rows) -> Rows {
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    match activation {
        Activation::Relu => map(x, |x| f32::from(x > 0.0)),
        Activation::Silu => map(x, |x| sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x)))),
        Activation::Mish => map(x, |x| {
            let tanh = softplus(x).tanh();
            tanh + x * sigmoid(x) * (1.0 - tanh * tanh)
        }),
        Activation::Gelu => {
            // gelu(x) = x·Φ(x) and gelu'(x) = Φ(x) + x·φ(x), with Φ(x) ≈ 1/2 + φ(0)·x near 0.
            let density = |x: f32| (-0.5 * x * x).exp() / (2.0 * std::f32::consts::PI).sqrt();
            let slope = |(x, gelu): (f32, f32)| {
                let phi = if x.abs() < 1e-3 {
                    0.5 + x * density(0.0)
                } else {
                    gelu / x
                };
                phi + x * density(x)
            };
            let gelu = floats(Flex::gelu(x.clone()));
            let values = floats(x.clone()).into_iter().zip(gelu).map(slope);
            let shape = x.shape();
            float_tensor(values.collect(), &[shape[0], shape[1]])
        }
    }
}

/// The first product's gradient from the hidden activations'.
pub(super) fn through_activation(problem: &Problem, pre: &Rows, dhidden: Rows) -> Rows {
    let (gate, up) = gate_and_up(problem, pre);
    let slope = slopes(problem.activation, &gate);
    match up {
        None => Flex::float_mul(dhidden, slope),
        Some(up) => {
            let plain = Problem {
                gated: false,
                ..*problem
            };
            let dup = Flex::float_mul(dhidden.clone(), activated(&plain, gate));
            let dgate = Flex::float_mul(Flex::float_mul(dhidden, up), slope);
            Flex::float_cat(vec![dgate, dup], 1)
        }
    }
}
