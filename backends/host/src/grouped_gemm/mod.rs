//! Grouped products: one product per expert.

pub mod fp8;

use crate::permute::{Segments, padded};
use crate::product::{Factor, Lines, Product, Run, products};
use crate::values::Matrices;
use moebius_ops::grouped_gemm::Problem;

/// Computes rows \[R,k\] · W_eᵀ + b_e, \[R,n\], for W \[E,n,k\] and b \[E,n\].
pub fn linear(
    problem: &Problem,
    segments: &Segments,
    rows: &[f32],
    w: Matrices<'_>,
    bias: Option<&[f32]>,
) -> Vec<f32> {
    let (n, rows) = (problem.n, matrix(segments, rows, problem.k));
    let product = |e: usize| Product {
        bias: bias.map(|bias| &bias[e * n..][..n]),
        ..product(segments, e, (rows, n), Factor::stacked(w, e, Run::Along))
    };
    let of_experts: Vec<_> = segments.occupied().map(product).collect();
    padded(products(&of_experts), problem.row_bound, n)
}

/// Computes the gradients that are needed: of the rows \[R,k\], the weights \[E,n,k\] and the biases \[E,n\].
pub fn linear_backward(
    problem: &Problem,
    segments: &Segments,
    [of_rows, of_w, of_bias]: [bool; 3],
    [dy, rows]: [&[f32]; 2],
    w: Matrices<'_>,
) -> [Option<Vec<f32>>; 3] {
    let (n, k) = (problem.n, problem.k);
    let dbias = of_bias.then(|| segments.sums(segments.unpadded(dy, n), n));
    let dy = matrix(segments, dy, n);
    let drows = of_rows.then(|| {
        let drows = products_back(segments, dy, w);
        padded(drows, problem.row_bound, k)
    });
    let dw = of_w.then(|| outer(segments, dy, matrix(segments, rows, k)));
    [drows, dw, dbias]
}

/// Returns the rows that have an expert as a matrix.
fn matrix<'a>(segments: &Segments, rows: &'a [f32], columns: usize) -> Matrices<'a> {
    Matrices::of_slice(segments.unpadded(rows, columns), columns)
}

/// Computes rows · W_e for the rows of every expert e.
fn products_back(segments: &Segments, rows: Matrices<'_>, w: Matrices<'_>) -> Vec<f32> {
    let right = |e| Factor::stacked(w, e, Run::Across);
    let product = |e: usize| product(segments, e, (rows, w.columns), right(e));
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
fn product<'a>(
    segments: &Segments,
    e: usize,
    (rows, columns): (Matrices<'a>, usize),
    right: Factor<'a>,
) -> Product<'a> {
    let of_expert = segments.rows(e);
    let left = Factor {
        lines: Lines::From(of_expert.start),
        ..Factor::rows(rows)
    };
    Product::new(left, right, [of_expert.len(), rows.columns, columns])
}
