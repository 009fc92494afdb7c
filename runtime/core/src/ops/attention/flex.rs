//! Attention within segments on the host, row by row.

use super::{Attended, AttentionCall, Projections, SegmentAttentionGradients, SegmentAttentionOps};
use crate::ops::Grouping;
use crate::ops::host::{cast_like, float_tensor, floats};
use crate::ops::rows::host::Segments;
use burn::backend::Flex;
use burn::backend::tensor::FloatTensor;
use std::ops::Range;

/// Host copies of the inputs, and where everything lies.
struct Host<'a> {
    call: &'a AttentionCall,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    /// The rows each row may attend to.
    seen: Vec<Range<usize>>,
}

impl<'a> Host<'a> {
    fn new(
        call: &'a AttentionCall,
        projections: Projections<Flex>,
        grouping: Grouping<Flex>,
    ) -> Self {
        Self {
            call,
            q: floats(projections.q),
            k: floats(projections.k),
            v: floats(projections.v),
            seen: seen(call, &Segments::grouped(grouping, call.problem.rows())),
        }
    }

    /// Head `head` of row `row` of a \[R, heads·D\] matrix.
    fn head<'m>(&self, matrix: &'m [f32], row: usize, head: usize) -> &'m [f32] {
        let d = self.call.problem.head_dim();
        &matrix[(row * self.call.problem.heads() + head) * d..][..d]
    }

    /// The probabilities of a row's keys, and their log-sum-exp.
    fn probabilities(&self, row: usize, head: usize) -> (Vec<f32>, f32) {
        let scale = 1.0 / (self.call.problem.head_dim() as f32).sqrt();
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
fn seen(call: &AttentionCall, segments: &Segments) -> Vec<Range<usize>> {
    let experts = segments.expert_of_rows();
    let sequence =
        |row: usize| segments.order[row] as usize / call.problem.segments().sequence_slots();
    let same = |a: usize, b: usize| experts[a] == experts[b] && sequence(a) == sequence(b);
    let rows = 0..experts.len();
    rows.map(|row| {
        let first = (0..=row).rev().take_while(|r| same(*r, row)).last();
        let last = (row..experts.len()).take_while(|r| same(*r, row)).last();
        let end = if call.problem.causal {
            row
        } else {
            last.unwrap_or(row)
        };
        first.unwrap_or(row)..end + 1
    })
    .collect()
}

impl SegmentAttentionOps for Flex {
    fn moe_segment_attention(
        projections: Projections<Self>,
        grouping: Grouping<Self>,
        call: AttentionCall,
    ) -> Attended<Self> {
        let dtype = projections.q.dtype();
        let (heads, d) = (call.problem.heads(), call.problem.head_dim());
        let host = Host::new(&call, projections, grouping);
        let mut o = vec![0.0; call.problem.rows() * heads * d];
        let mut lse = vec![0.0; call.problem.rows() * heads];
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
        Attended {
            o: cast_like(float_tensor(o, &[call.problem.rows(), heads * d]), dtype),
            lse: float_tensor(lse, &[call.problem.rows(), heads]),
        }
    }
}

impl SegmentAttentionGradients for Flex {
    fn moe_segment_attention_backward(
        gradient: FloatTensor<Self>,
        projections: Projections<Self>,
        attended: Attended<Self>,
        grouping: Grouping<Self>,
        call: AttentionCall,
    ) -> Projections<Self> {
        let dtype = gradient.dtype();
        let (heads, d) = (call.problem.heads(), call.problem.head_dim());
        let host = Host::new(&call, projections, grouping);
        let (gradient, o) = (floats(gradient), floats(attended.o));
        let scale = 1.0 / (d as f32).sqrt();
        let mut out = [(); 3].map(|()| vec![0.0; call.problem.rows() * heads * d]);
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
        let [q, k, v] = out.map(|values| {
            cast_like(
                float_tensor(values, &[call.problem.rows(), heads * d]),
                dtype,
            )
        });
        Projections { q, k, v }
    }
}
