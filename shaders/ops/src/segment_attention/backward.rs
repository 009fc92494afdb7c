//! dq, dk and dv in f64.

use super::forward::{attended, product};
use super::{Inputs, Problem};

/// What [`reference_backward()`] returns, each \[R, heads·D\].
#[derive(Clone, Debug, PartialEq)]
pub struct Gradients {
    /// Of the queries.
    pub dq: Vec<f64>,
    /// Of the keys.
    pub dk: Vec<f64>,
    /// Of the values.
    pub dv: Vec<f64>,
}

/// The oracle, in f64, for the gradient `d_o` of what [`super::reference()`] returns.
pub fn reference_backward(
    problem: &Problem,
    segments: &[u32],
    inputs: &Inputs<'_>,
    d_o: &[f64],
) -> Gradients {
    let Inputs { q, k, v } = *inputs;
    let dim = problem.head_dim;
    let scale = 1.0 / (dim as f64).sqrt();
    let forward = super::reference(problem, segments, inputs);
    let [mut dq, mut dk, mut dv] = [(); 3].map(|()| vec![0.0; problem.elements()]);
    for (at, lse) in forward.lse.iter().enumerate() {
        let (row, head) = (at / problem.heads, at % problem.heads);
        let own = at * dim;
        let d_row = &d_o[own..][..dim];
        let delta = product(d_row, &forward.o[own..][..dim]);
        for other in attended(problem, segments, row) {
            let from = (other * problem.heads + head) * dim;
            let p = (scale * product(&q[own..][..dim], &k[from..][..dim]) - lse).exp();
            let ds = scale * p * (product(d_row, &v[from..][..dim]) - delta);
            for i in 0..dim {
                dq[own + i] += ds * k[from + i];
                dk[from + i] += ds * q[own + i];
                dv[from + i] += p * d_row[i];
            }
        }
    }
    Gradients { dq, dk, dv }
}
