//! o and lse in f64.

use super::Problem;

/// What the oracles read, each \[R, heads·D\].
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// Queries.
    pub q: &'a [f64],
    /// Keys.
    pub k: &'a [f64],
    /// Values.
    pub v: &'a [f64],
}

/// What [`reference()`] returns.
#[derive(Clone, Debug, PartialEq)]
pub struct Attended {
    /// \[R, heads·D\].
    pub o: Vec<f64>,
    /// \[R, heads\].
    pub lse: Vec<f64>,
}

/// ⟨a, b⟩.
pub(super) fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The rows that query row `row` attends to.
pub(super) fn attended(problem: &Problem, segments: &[u32], row: usize) -> std::ops::Range<usize> {
    let (first, end) = (segments[2 * row] as usize, segments[2 * row + 1] as usize);
    if problem.causal {
        first..end.min(row + 1)
    } else {
        first..end
    }
}

/// The oracle, in f64, for `segments` \[R,2\].
pub fn reference(problem: &Problem, segments: &[u32], inputs: &Inputs<'_>) -> Attended {
    let dim = problem.head_dim;
    let mut o = vec![0.0; problem.elements()];
    let mut lse = vec![0.0; problem.heads_of_rows()];
    let scale = 1.0 / (dim as f64).sqrt();
    for (at, lse) in lse.iter_mut().enumerate() {
        let (row, head) = (at / problem.heads, at % problem.heads);
        let others = attended(problem, segments, row);
        if others.is_empty() {
            continue;
        }
        let head_of = |other: usize| (other * problem.heads + head) * dim;
        let query = &inputs.q[at * dim..][..dim];
        let score = |other: usize| scale * product(query, &inputs.k[head_of(other)..][..dim]);
        let largest = others.clone().map(score).fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = others.clone().map(|j| (score(j) - largest).exp()).sum();
        *lse = largest + total.ln();
        for other in others {
            let p = (score(other) - *lse).exp();
            let values = &inputs.v[head_of(other)..][..dim];
            for (sum, value) in o[at * dim..][..dim].iter_mut().zip(values) {
                *sum += p * value;
            }
        }
    }
    Attended { o, lse }
}
