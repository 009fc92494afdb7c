//! Products with FP8 weights.

mod coded;
mod decode;
mod few;

use crate::expert_activation::HiddenActivation;
use crate::permute::{Segments, padded};
use crate::product::{Factor, Lines, Product, products};
use crate::quantize::Scales;
use crate::values::Matrices;
use coded::Coded;
use moebius_ops::grouped_gemm::{Problem, Source};
use moebius_ops::scaling::e8m0_value;
use std::borrow::Cow;

/// Weights as codes.
#[derive(Clone, Debug)]
pub struct Weights<'a> {
    /// Panels of words.
    pub codes: &'a [i32],
    /// Those of the codes.
    pub scales: Scales<'a>,
    /// \[E, n or 2n\].
    pub bias: Option<&'a [f32]>,
}

/// \[R,n\] of x \[T,k\] or \[R,k\], for rows that are sorted as `segments` says, or one expert's all where there is no sort.
pub fn linear(
    problem: &Problem,
    segments: Option<&Segments>,
    x: Matrices<'_>,
    weights: &Weights<'_>,
) -> Vec<f32> {
    let p = problem;
    let Some(segments) = segments else {
        return multiply(p, x, weights, &[(0, Lines::From(0), p.row_bound)]);
    };
    let places = match p.rows {
        Source::Tokens => segments.tokens(p.top_k),
        Source::Sorted => (0..segments.order.len() as u32).collect(),
    };
    let of_expert = |e| {
        let rows = segments.rows(e);
        (e, Lines::At(&places[rows.clone()]), rows.len())
    };
    let of_experts: Vec<_> = segments.occupied().map(of_expert).collect();
    padded(multiply(p, x, weights, &of_experts), p.row_bound, p.n)
}

/// \[rows, n\]: the products of experts with so many of the rows that `lines` tells.
fn multiply(
    p: &Problem,
    x: Matrices<'_>,
    weights: &Weights<'_>,
    of_experts: &[(usize, Lines<'_>, usize)],
) -> Vec<f32> {
    let columns = p.n * p.parts();
    let scales = values(&weights.scales);
    let Some(coded) = Coded::new(p, weights.codes, &scales) else {
        unreachable!("a call with FP8 weights has a problem with codes");
    };
    let of_experts = of_experts.iter().map(|&(e, lines, rows)| Product {
        left: Factor {
            lines,
            ..Factor::rows(x)
        },
        right: coded.expert(e),
        rows,
        inner: p.k,
        columns,
        bias: weights.bias.map(|bias| &bias[e * columns..][..columns]),
    });
    let of_experts: Vec<_> = of_experts.collect();
    let y = products(&of_experts);
    if !p.gated && p.activation.is_none() {
        return y;
    }
    let rule = HiddenActivation {
        f: p.n,
        gated: p.gated,
        activation: p.activation,
    };
    let rows: usize = of_experts.iter().map(|p| p.rows).sum();
    let mut hidden = vec![0.0; rows * p.n];
    rule.activate(&y, &mut hidden);
    hidden
}

/// Scales, without a copy of those that are f32s: it would take longer than a product with one row. Of E8M0 bytes there are as many to a row
/// as in words, padding included.
fn values<'a>(scales: &'a Scales<'_>) -> Cow<'a, [f32]> {
    match scales {
        Scales::F32(scales) => Cow::Borrowed(scales),
        Scales::E8M0(words) => {
            let bytes = words.iter().flat_map(|word| word.to_le_bytes());
            bytes.map(e8m0_value).collect()
        }
    }
}
