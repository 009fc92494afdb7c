//! The gradients of the rows and of the weights in f64.

use super::Problem;
use crate::permute::Sorted;

/// What [`reference_backward()`] returns.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradients {
    /// \[R, F or 2F\].
    pub dpre: Vec<f64>,
    /// w · hidden \[R,F\].
    pub weighted: Vec<f64>,
    /// \[S\].
    pub dweights: Vec<f64>,
}

/// The oracle, in f64; with weights of 1 its `dpre` is the gradient without weights.
pub fn reference_backward(
    problem: &Problem,
    sorted: &Sorted,
    weights: &[f64],
    pre: &[f64],
    dhidden: &[f64],
) -> Gradients {
    let (inter, columns) = (problem.inter, problem.inter * problem.parts());
    let mut weighted = super::reference(problem, sorted, pre);
    let mut dpre = vec![0.0; problem.pre_len()];
    let mut dweights = vec![0.0; problem.slots];
    for row in 0..sorted.offsets[problem.experts] as usize {
        let slot = sorted.order[row] as usize;
        for column in 0..inter {
            let (at, gate) = (row * inter + column, row * columns + column);
            let (x, d) = (pre[gate], weights[slot] * dhidden[at]);
            let slope = d * problem.activation.map_or(1.0, |a| a.reference_gradient(x));
            dpre[gate] = slope;
            if problem.gated {
                dpre[gate] = slope * pre[gate + inter];
                dpre[gate + inter] = d * problem.activation.map_or(x, |a| a.reference(x));
            }
            dweights[slot] += dhidden[at] * weighted[at];
            weighted[at] *= weights[slot];
        }
    }
    Gradients {
        dpre,
        weighted,
        dweights,
    }
}
