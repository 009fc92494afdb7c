//! Attention within segments on the host, row by row.

use crate::ops::host::{Operands, Rows, cast_like, float_tensor, floats};
use crate::ops::permute::host::Segments;
use crate::ops::tensors::Value;
use burn::backend::Flex;
use moebius_ops::segment_attention::Problem;
use std::ops::Range;

/// Host copies of the inputs, and where everything lies.
struct Host<'a> {
    problem: &'a Problem,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    /// The rows each row may attend to.
    seen: Vec<Range<usize>>,
}

impl<'a> Host<'a> {
    fn new(problem: &'a Problem, b: &mut Operands) -> Self {
        Self {
            problem,
            q: floats(b.float("q")),
            k: floats(b.float("k")),
            v: floats(b.float("v")),
            seen: seen(problem, &Segments::of(b, problem.rows())),
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
        let q = self.head(&self.q, row, head);
        let score = |j| dot(q, self.head(&self.k, j, head)) * scale;
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

/// o and its log-sum-exp, or the gradients of q, k and v.
pub(in crate::ops) fn run(problem: &Problem, backward: bool, mut b: Operands) -> Vec<Value<Flex>> {
    let results = if backward {
        gradients(problem, &mut b)
    } else {
        forward(problem, &mut b)
    };
    results.into_iter().map(Value::Float).collect()
}

fn forward(problem: &Problem, b: &mut Operands) -> Vec<Rows> {
    let dtype = b.get("q").float().dtype();
    let (rows, heads, d) = (problem.rows(), problem.heads(), problem.head_dim());
    let host = Host::new(problem, b);
    let mut o = vec![0.0; rows * heads * d];
    let mut lse = vec![0.0; rows * heads];
    for row in 0..host.seen.len() {
        for head in 0..heads {
            let (p, sum) = host.probabilities(row, head);
            lse[row * heads + head] = sum;
            for (j, p) in host.seen[row].clone().zip(p) {
                let to = &mut o[(row * heads + head) * d..][..d];
                add(to, p, host.head(&host.v, j, head));
            }
        }
    }
    let o = float_tensor(o, &[rows, heads * d]);
    vec![cast_like(o, dtype), float_tensor(lse, &[rows, heads])]
}

fn gradients(problem: &Problem, b: &mut Operands) -> Vec<Rows> {
    let (rows, heads, d) = (problem.rows(), problem.heads(), problem.head_dim());
    let gradient = b.float("do");
    let dtype = gradient.dtype();
    let (gradient, o) = (floats(gradient), floats(b.float("o")));
    let host = Host::new(problem, b);
    let scale = 1.0 / (d as f32).sqrt();
    let mut out = [(); 3].map(|()| vec![0.0; rows * heads * d]);
    let at = |row: usize, head: usize| (row * heads + head) * d..(row * heads + head + 1) * d;
    for row in 0..host.seen.len() {
        for head in 0..heads {
            let (p, _) = host.probabilities(row, head);
            let of = host.head(&gradient, row, head);
            let delta = dot(of, host.head(&o, row, head));
            for (j, p) in host.seen[row].clone().zip(p) {
                let ds = p * (dot(of, host.head(&host.v, j, head)) - delta) * scale;
                add(&mut out[0][at(row, head)], ds, host.head(&host.k, j, head));
                add(&mut out[1][at(j, head)], ds, host.head(&host.q, row, head));
                add(&mut out[2][at(j, head)], p, of);
            }
        }
    }
    let tensor = |values| cast_like(float_tensor(values, &[rows, heads * d]), dtype);
    out.map(tensor).into()
}
