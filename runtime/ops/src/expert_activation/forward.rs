//! hidden = act(pre), or act(gate) · up, in f64.

use super::Problem;
use crate::permute::Sorted;

/// The oracle, in f64: hidden \[R,F\] of `pre` \[R, F or 2F\].
pub fn reference(problem: &Problem, sorted: &Sorted, pre: &[f64]) -> Vec<f64> {
    let (inter, columns) = (problem.inter, problem.inter * problem.parts());
    let mut hidden = vec![0.0; problem.hidden_len()];
    for row in 0..sorted.offsets[problem.experts] as usize {
        for column in 0..inter {
            let gate = pre[row * columns + column];
            let up = match problem.gated {
                true => pre[row * columns + inter + column],
                false => 1.0,
            };
            let value = problem.activation.map_or(gate, |a| a.reference(gate));
            hidden[row * inter + column] = value * up;
        }
    }
    hidden
}
