//! The same results on the host, in f64, for a few rows.

use moebius_ops::attention::{self, Inputs, Sizes, Tables};
use moebius_ops::grouped_gemm::Activation;
use moebius_ops::{Element, Mismatch, experts, routing};

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
) -> Result<Vec<f64>, Mismatch> {
    let [router, w_in, w_out] = weights else {
        unreachable!("a layer of experts has three")
    };
    let routing = routing::Problem::new(x.len() / hidden, experts, top_k)?;
    let logits = routing::logits_reference(x, router, hidden);
    let logits: Vec<f32> = logits.iter().map(|logit| *logit as f32).collect();
    let routed = routing::reference(&routing, &logits, None);
    let problem = experts::Problem {
        routing,
        hidden,
        inter,
        element: Element::F32,
        gated: false,
        activation: Activation::Relu,
        bias: false,
        capacity: None,
        row_bound: routing.slots(),
        dense: false,
    };
    let inputs = experts::ReferenceInputs {
        x,
        indices: &routed.indices,
        weights: &routed.weights,
        w_in,
        b_in: None,
        w_out,
        b_out: None,
    };
    let (y, _) = experts::reference(&problem, &inputs)?;
    Ok(y)
}

/// Some rows of o \[B,H,S,D\] of queries q and keys and values of the same shape: each is an attention of its own, to the
/// keys that it sees.
pub(super) fn attention(
    problem: &attention::Problem,
    rows: impl Iterator<Item = usize>,
    q: &[f32],
    [k, v]: [&[f32]; 2],
) -> Result<Vec<f64>, Mismatch> {
    let (tokens, dim) = (problem.sizes().queries, problem.sizes().head_dim);
    let mut o = Vec::new();
    for row in rows {
        let seen = problem.keys_of(row % tokens..row % tokens + 1);
        let head = row / tokens * tokens;
        let wide = |values: &[f32], rows: std::ops::Range<usize>| -> Vec<f64> {
            let values = &values[rows.start * dim..rows.end * dim];
            values.iter().map(|value| f64::from(*value)).collect()
        };
        let own = attention::Problem::new(Sizes {
            batch: 1,
            heads: 1,
            kv_heads: 1,
            queries: 1,
            keys: seen.len(),
            ..*problem.sizes()
        })?;
        let keys = head + seen.start..head + seen.end;
        let inputs = Inputs {
            q: &wide(q, row..row + 1),
            k: &wide(k, keys.clone()),
            v: &wide(v, keys),
            tables: Tables::default(),
        };
        o.extend(attention::reference(&own, &inputs).o);
    }
    Ok(o)
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;
