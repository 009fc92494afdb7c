//! Grouped products: one product per expert.

pub mod blocks;
mod columns;
mod decoded;
pub mod fp8;
mod lanes;
mod sparse24;

use crate::expert_activation::HiddenActivation;
use crate::permute::{Segments, padded};
use crate::product::{Factor, Lines, Product, Right, Run, products};
use crate::values::Matrices;
use moebius_ops::grouped_gemm::{Problem, Source};
use sparse24::Sparse;

/// The weights \[E,n,k\] of all experts.
#[derive(Clone, Copy, Debug)]
pub enum Weights<'a> {
    /// All values.
    Values(Matrices<'a>),
    /// Two of each four neighbouring values of a row, \[E,n,k/2\], and the words of their places, \[E,n,⌈k/32⌉\].
    Sparse24(Matrices<'a>, &'a [i32]),
}

/// Computes rows \[R,k\] · W_eᵀ + b_e, \[R,n\], for W \[E,n,k\] and b \[E,n\].
pub fn linear(
    problem: &Problem,
    segments: &Segments,
    rows: Matrices<'_>,
    w: Weights<'_>,
    bias: Option<&[f32]>,
) -> Vec<f32> {
    let n = problem.n;
    let bias = |e: usize| bias.map(|bias| &bias[e * n..][..n]);
    let y = multiplied(segments, (rows, n), (w, Run::Along), bias);
    padded(y, problem.row_bound, n)
}

/// Computes the gradients that are needed: of the rows \[R,k\], the weights \[E,n,k\] and the biases \[E,n\].
pub fn linear_backward(
    problem: &Problem,
    segments: &Segments,
    [of_rows, of_w, of_bias]: [bool; 3],
    [dy, rows]: [&[f32]; 2],
    w: Weights<'_>,
) -> [Option<Vec<f32>>; 3] {
    let (n, k) = (problem.n, problem.k);
    let dbias = of_bias.then(|| segments.sums(segments.unpadded(dy, n), n));
    let dy = matrix(segments, dy, n);
    let drows = of_rows.then(|| {
        let drows = multiplied(segments, (dy, k), (w, Run::Across), |_| None);
        padded(drows, problem.row_bound, k)
    });
    let dw = of_w.then(|| outer(segments, dy, matrix(segments, rows, k)));
    [drows, dw, dbias]
}

/// Returns the rows that have an expert as a matrix.
fn matrix<'a>(segments: &Segments, rows: &'a [f32], columns: usize) -> Matrices<'a> {
    Matrices::of_slice(segments.unpadded(rows, columns), columns)
}

/// Computes rows · W_eᵀ + b_e, or rows · W_e if W runs across, \[rows, columns\], for the rows of every expert e.
fn multiplied<'a>(
    segments: &Segments,
    rows: (Matrices<'a>, usize),
    (w, run): (Weights<'a>, Run),
    bias: impl Fn(usize) -> Option<&'a [f32]>,
) -> Vec<f32> {
    match w {
        Weights::Values(w) => {
            let right = |e| Factor::stacked(w, e, run);
            multiplied_by(segments, rows, right, bias)
        }
        Weights::Sparse24(kept, places) => {
            let right = |e| Sparse::stacked((kept, places), e, run);
            multiplied_by(segments, rows, right, bias)
        }
    }
}

/// Does what [`multiplied`] does with the factor `right` of each expert.
fn multiplied_by<'a, R: Right>(
    segments: &Segments,
    rows: (Matrices<'a>, usize),
    right: impl Fn(usize) -> R,
    bias: impl Fn(usize) -> Option<&'a [f32]>,
) -> Vec<f32> {
    let product = |e: usize| Product {
        bias: bias(e),
        ..product(segments, e, rows, right(e))
    };
    let of_experts: Vec<_> = segments.occupied().map(product).collect();
    products(&of_experts)
}

/// Computes aᵀ · b \[E,m,n\] over the rows of every expert.
fn outer(segments: &Segments, a: Matrices<'_>, b: Matrices<'_>) -> Vec<f32> {
    let product = |e: usize| {
        let rows = segments.rows(e);
        let [left, right] = [a, b].map(|matrix| Factor {
            lines: Lines::From(rows.start),
            ..Factor::columns(matrix)
        });
        Product::new(left, right, [a.columns, rows.len(), b.columns])
    };
    let of_experts: Vec<_> = (0..segments.experts()).map(product).collect();
    products(&of_experts)
}

/// Describes the product of the rows of expert `e` and a factor of `columns` columns.
fn product<'a, R>(
    segments: &Segments,
    e: usize,
    (rows, columns): (Matrices<'a>, usize),
    right: R,
) -> Product<'a, R> {
    let of_expert = segments.rows(e);
    let left = Factor {
        lines: Lines::From(of_expert.start),
        ..Factor::rows(rows)
    };
    Product::new(left, right, [of_expert.len(), rows.columns, columns])
}

/// Computes act(x · W_eᵀ + b_e), or its gated form, \[R,n\] from x \[T,k\] or \[R,k\] with a bias \[E, n or 2n\] and the factor `right` of each
/// expert \[k, n or 2n\]; for rows sorted as `segments` says, or without a sort for all rows of a single expert.
fn coded<'a, R: Right>(
    p: &Problem,
    segments: Option<&Segments>,
    x: (Matrices<'a>, Option<&'a [f32]>),
    right: impl Fn(usize) -> R,
) -> Vec<f32> {
    let Some(segments) = segments else {
        return activated(p, x, right, &[(0, Lines::From(0), p.row_bound)]);
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
    padded(activated(p, x, right, &of_experts), p.row_bound, p.n)
}

/// Computes the gradients that are needed of a plain product of sorted rows with codes, from that of its result \[R,n\]: of x \[R,k\], by the
/// factor `right` of each expert \[n,k\], and of the biases \[E,n\].
fn coded_backward<R: Right>(
    p: &Problem,
    segments: &Segments,
    [of_x, of_bias]: [bool; 2],
    dy: &[f32],
    right: impl Fn(usize) -> R,
) -> [Option<Vec<f32>>; 2] {
    let dx = of_x.then(|| {
        let dx = multiplied_by(segments, (matrix(segments, dy, p.n), p.k), right, |_| None);
        padded(dx, p.row_bound, p.k)
    });
    let dbias = of_bias.then(|| segments.sums(segments.unpadded(dy, p.n), p.n));
    [dx, dbias]
}

/// Computes the products of experts, \[rows, n\], with their activation; each expert comes with the lines and the number of its rows.
fn activated<'a, R: Right>(
    p: &Problem,
    (x, bias): (Matrices<'a>, Option<&'a [f32]>),
    right: impl Fn(usize) -> R,
    of_experts: &[(usize, Lines<'a>, usize)],
) -> Vec<f32> {
    let columns = p.n * p.parts();
    let of_experts = of_experts.iter().map(|&(e, lines, rows)| Product {
        left: Factor {
            lines,
            ..Factor::rows(x)
        },
        right: right(e),
        rows,
        inner: p.k,
        columns,
        bias: bias.map(|bias| &bias[e * columns..][..columns]),
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
