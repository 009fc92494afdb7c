//! Attention among the rows of one expert and one sequence, row by row.

use crate::permute::Segments;
use moebius_ops::segment_attention::Problem;
use std::ops::Range;

/// The inputs, and where everything lies.
struct Inputs<'a> {
    problem: &'a Problem,
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    /// The rows each row may attend to.
    seen: Vec<Range<usize>>,
}

impl<'a> Inputs<'a> {
    fn new(problem: &'a Problem, segments: &Segments, [q, k, v]: [&'a [f32]; 3]) -> Self {
        Self {
            problem,
            q,
            k,
            v,
            seen: seen(problem, segments),
        }
    }

    /// Head `head` of row `row` of a \[R, heads·D\] matrix.
    fn head<'m>(&self, matrix: &'m [f32], row: usize, head: usize) -> &'m [f32] {
        let d = self.problem.head_dim();
        &matrix[(row * self.problem.heads() + head) * d..][..d]
    }

    /// The probabilities of a row's keys, and their log-sum-exp.
    fn probabilities(&self, row: usize, head: usize) -> (Vec<f32>, f32) {
        let scale = 1.0 / (self.problem.head_dim() as f32).sqrt();
        let q = self.head(self.q, row, head);
        let score = |j| dot(q, self.head(self.k, j, head)) * scale;
        let scores: Vec<f32> = self.seen[row].clone().map(score).collect();
        let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f32 = scores.iter().map(|s| (s - largest).exp()).sum();
        let lse = largest + sum.ln();
        (scores.iter().map(|s| (s - lse).exp()).collect(), lse)
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f32], factor: f32, values: &[f32]) {
    to.iter_mut()
        .zip(values)
        .for_each(|(to, v)| *to += factor * v);
}

/// The rows of the same expert and sequence, up to the row itself when causal.
fn seen(problem: &Problem, segments: &Segments) -> Vec<Range<usize>> {
    let experts = segments.expert_of_rows();
    let sequence = |row: usize| segments.order[row] as usize / problem.segments().sequence_slots();
    let same = |a: usize, b: usize| experts[a] == experts[b] && sequence(a) == sequence(b);
    let rows = 0..experts.len();
    rows.map(|row| {
        let first = (0..=row).rev().take_while(|r| same(*r, row)).last();
        let last = (row..experts.len()).take_while(|r| same(*r, row)).last();
        let end = if problem.causal() {
            row
        } else {
            last.unwrap_or(row)
        };
        first.unwrap_or(row)..end + 1
    })
    .collect()
}

/// o \[R, heads·D\] and its log-sum-exp \[R, heads\] of q, k and v \[R, heads·D\].
pub fn forward(problem: &Problem, segments: &Segments, inputs: [&[f32]; 3]) -> [Vec<f32>; 2] {
    let (rows, heads, d) = (problem.rows(), problem.heads(), problem.head_dim());
    let inputs = Inputs::new(problem, segments, inputs);
    let mut o = vec![0.0; rows * heads * d];
    let mut lse = vec![0.0; rows * heads];
    for row in 0..inputs.seen.len() {
        for head in 0..heads {
            let (p, sum) = inputs.probabilities(row, head);
            lse[row * heads + head] = sum;
            for (j, p) in inputs.seen[row].clone().zip(p) {
                let to = &mut o[(row * heads + head) * d..][..d];
                add(to, p, inputs.head(inputs.v, j, head));
            }
        }
    }
    [o, lse]
}

/// The gradients of q, k and v, from o and its gradient.
pub fn backward(
    problem: &Problem,
    segments: &Segments,
    inputs: [&[f32]; 3],
    [o, d_o]: [&[f32]; 2],
) -> [Vec<f32>; 3] {
    let (rows, heads, d) = (problem.rows(), problem.heads(), problem.head_dim());
    let inputs = Inputs::new(problem, segments, inputs);
    let scale = 1.0 / (d as f32).sqrt();
    let mut out = [(); 3].map(|()| vec![0.0; rows * heads * d]);
    let at = |row: usize, head: usize| (row * heads + head) * d..(row * heads + head + 1) * d;
    for row in 0..inputs.seen.len() {
        for head in 0..heads {
            let (p, _) = inputs.probabilities(row, head);
            let of = inputs.head(d_o, row, head);
            let delta = dot(of, inputs.head(o, row, head));
            for (j, p) in inputs.seen[row].clone().zip(p) {
                let ds = p * (dot(of, inputs.head(inputs.v, j, head)) - delta) * scale;
                add(
                    &mut out[0][at(row, head)],
                    ds,
                    inputs.head(inputs.k, j, head),
                );
                add(
                    &mut out[1][at(j, head)],
                    ds,
                    inputs.head(inputs.q, row, head),
                );
                add(&mut out[2][at(j, head)], p, of);
            }
        }
    }
    out
}
