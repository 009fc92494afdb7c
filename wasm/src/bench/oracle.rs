//! The same results on the host, in f64, for a few rows.

use moebius_ops::attention::{self, Inputs, Tables};
use moebius_ops::{Mismatch, experts, routing};

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
    let problem = experts::Problem::new(routing, hidden, inter);
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

/// Some rows of o \[B,H,S,D\] of queries q and keys and values of the same shape: each is an attention of its own.
pub(super) fn attention(
    problem: &attention::Problem,
    rows: impl Iterator<Item = usize>,
    q: &[f32],
    [k, v]: [&[f32]; 2],
) -> Result<Vec<f64>, Mismatch> {
    let (tokens, dim) = (problem.sizes().queries, problem.sizes().head_dim);
    let wide = |values: &[f32], first: usize, rows: usize| -> Vec<f64> {
        let values = &values[first * dim..][..rows * dim];
        values.iter().map(|value| f64::from(*value)).collect()
    };
    let mut o = Vec::new();
    for row in rows {
        let (own, mask) = problem.of_queries(1, &[row % tokens])?;
        let head = row / tokens * tokens;
        let inputs = Inputs {
            q: &wide(q, row, 1),
            k: &wide(k, head, tokens),
            v: &wide(v, head, tokens),
            tables: Tables {
                mask: &mask,
                ..Tables::default()
            },
        };
        o.extend(attention::reference(&own, &inputs).o);
    }
    Ok(o)
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;
