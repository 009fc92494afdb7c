//! The same results on the host, in f64, for a few rows.

use moebius_ops::grouped_gemm::Activation;
use moebius_ops::{Element, ShapeError, moe, routing};

/// ‖got − expected‖ / ‖expected‖.
pub(super) fn relative_error(got: &[f32], expected: &[f64]) -> f64 {
    let (mut error, mut norm) = (0.0, 0.0);
    for (got, expected) in got.iter().zip(expected) {
        error += (f64::from(*got) - expected).powi(2);
        norm += expected.powi(2);
    }
    (error / norm).sqrt()
}

/// y \[T,H\] of tokens x \[T,H\]: ungated relu experts behind a softmax router, the weights of the `top_k` chosen sum to 1.
/// `weights` are the router's \[E,H\], and the experts' \[E,F,H\] and \[E,H,F\].
pub(super) fn experts(
    [hidden, inter, experts, top_k]: [usize; 4],
    x: &[f32],
    weights: &[Vec<f32>],
) -> Result<Vec<f64>, ShapeError> {
    let [router, w_in, w_out] = weights else {
        unreachable!("a layer of experts has three")
    };
    let routing = routing::Problem::new(x.len() / hidden, experts, top_k)?;
    let logits = routing::logits_reference(x, router, hidden);
    let logits: Vec<f32> = logits.iter().map(|logit| *logit as f32).collect();
    let routed = routing::reference(&routing, &logits, None);
    let problem = moe::Problem {
        routing,
        hidden,
        inter,
        element: Element::F32,
        gated: false,
        activation: Activation::Relu,
        bias: false,
        capacity: None,
        row_bound: routing.slots(),
    };
    let inputs = moe::ReferenceInputs {
        x,
        indices: &routed.indices,
        weights: &routed.weights,
        w_in,
        b_in: None,
        w_out,
        b_out: None,
    };
    let (y, _) = moe::reference(&problem, &inputs)?;
    Ok(y)
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;
