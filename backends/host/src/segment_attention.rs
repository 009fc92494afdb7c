//! Attention among the rows of one expert and one sequence: each such segment is a call of [`attention`], with one segment per processor at
//! a time. The bits of a segment's result depend on nothing else.

use crate::attention::{self, Operands, Results};
use crate::permute::Segments;
use moebius_ops::segment_attention::Problem;
use moebius_ops::{AttentionPass, TableGradients};
use rayon::prelude::*;
use std::ops::Range;

/// The rows of each expert and sequence, in their order.
fn each(problem: &Problem, segments: &Segments) -> Vec<Range<usize>> {
    let slots = problem.segments().sequence_slots() as u32;
    let experts = (0..segments.experts()).map(|e| &segments.order[segments.rows(e)]);
    let runs = experts.flat_map(|order| order.chunk_by(move |a, b| a / slots == b / slots));
    let mut end = 0;
    let rows = runs.map(|run| {
        let first = end;
        end += run.len();
        first..end
    });
    rows.collect()
}

/// Calls `of` with each segment's attention and its rows of `operands` by head, and assembles results of `elements` values. Rows without an
/// expert are 0.
fn by_segment<const N: usize, const M: usize>(
    problem: &Problem,
    segments: &Segments,
    operands: [&[f32]; N],
    elements: [usize; M],
    of: impl Fn(&moebius_ops::attention::Problem, [Vec<f32>; N]) -> [Vec<f32>; M] + Sync,
) -> [Vec<f32>; M] {
    let each = each(problem, segments).into_par_iter().map(|rows| {
        let operands = operands.map(|x| problem.by_head(x, rows.clone()));
        let found = of(&problem.of_segment(rows.len()), operands);
        (rows, found)
    });
    let each: Vec<(Range<usize>, [Vec<f32>; M])> = each.collect();
    let mut results = elements.map(|n| vec![0.0; n]);
    for (rows, found) in &each {
        for (result, found) in results.iter_mut().zip(found) {
            problem.put_by_head(result, rows.clone(), found);
        }
    }
    results
}

/// Computes o \[R, heads·D\] and its log-sum-exp \[R, heads\] from q, k and v \[R, heads·D\].
pub fn forward(problem: &Problem, segments: &Segments, qkv: [&[f32]; 3]) -> [Vec<f32>; 2] {
    let elements = [problem.elements(), problem.heads_of_rows()];
    by_segment(problem, segments, qkv, elements, |of_segment, [q, k, v]| {
        attention::forward(&Operands::new(of_segment, [&q, &k, &v]))
    })
}

/// Computes the gradients of q, k and v from o, its log-sum-exp and the gradient of o.
pub fn backward(
    problem: &Problem,
    segments: &Segments,
    [q, k, v]: [&[f32]; 3],
    [o, lse, d_o]: [&[f32]; 3],
) -> [Vec<f32>; 3] {
    let pass = AttentionPass::Output(TableGradients {
        bias: false,
        relative: false,
        sinks: false,
    });
    let (operands, elements) = ([q, k, v, o, lse, d_o], [problem.elements(); 3]);
    by_segment(problem, segments, operands, elements, |of_segment, rows| {
        let [q, k, v, o, lse, d_o] = rows.each_ref().map(Vec::as_slice);
        let results = Results {
            o,
            d_o,
            lse,
            d_lse: &[],
        };
        let gradients = attention::backward(&Operands::new(of_segment, [q, k, v]), pass, &results);
        let gradients = <[Vec<f32>; 3]>::try_from(gradients);
        gradients.unwrap_or_else(|_| unreachable!("q, k and v have gradients, and nothing else"))
    })
}
