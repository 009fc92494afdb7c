//! Operations that have the same bits on every device ([`moebius_ops::exact`]): plain loops in f32, in the order of the kernels' loops, with
//! threads that share rows and nothing else.

mod functions;
mod route;

pub use functions::apply;
pub use route::{Chosen, route};

use crate::kv_cache::Places;
use crate::workers::each_row;
use functions::{activate as act, exp, gated, reciprocal, reciprocal_root, settled, tanh};
use moebius_ops::exact::{Activate, Combine, Function, Norm, Product, Rotate, Seen};
use moebius_ops::kv_cache::{Attend, BLOCK, Layout};
use rayon::prelude::*;

/// Σ x · y, in order.
fn dot<'a>(x: impl Iterator<Item = &'a f32>, y: impl Iterator<Item = f32>) -> f32 {
    x.zip(y)
        .fold(0.0, |sum, (x, y)| sum + settled(*x) * settled(y))
}

/// Computes a function of each number.
pub fn map(function: Function, x: &[f32]) -> Vec<f32> {
    x.par_iter().map(|x| apply(function, *x)).collect()
}

/// Computes y \[R, n\] from x \[R / share, k\] and w \[E, n, k\]; `indices` \[R\] and `bias` \[E, n\] are empty where there are none.
pub fn product(p: &Product, [x, w, bias]: [&[f32]; 3], indices: &[u32]) -> Vec<f32> {
    let mut y = vec![0.0; p.rows * p.n];
    let value = |at: usize| {
        let (row, column) = (at / p.n, at % p.n);
        let expert = indices.get(row).map_or(0, |expert| *expert as usize);
        if expert >= p.experts {
            return 0.0;
        }
        let of = expert * p.n + column;
        let x = &x[row / p.share * p.k..][..p.k];
        let sum = dot(x.iter(), w[of * p.k..][..p.k].iter().copied());
        settled(bias.get(of).map_or(sum, |bias| sum + settled(*bias)))
    };
    let places = y.par_iter_mut().enumerate();
    places.for_each(|(at, y)| *y = value(at));
    y
}

/// Computes y \[R, F\] from x \[R, F or 2F\].
pub fn activate(p: &Activate, x: &[f32]) -> Vec<f32> {
    let mut y = vec![0.0; p.rows * p.inter];
    each_row(&mut y, p.inter, &|row: usize, y: &mut [f32]| {
        let (gates, ups) = x[row * p.columns()..][..p.columns()].split_at(p.inter);
        for (at, y) in y.iter_mut().enumerate() {
            let value = act(p.activation, settled(gates[at]));
            let up = ups.get(at);
            let up = up.map(|up| gated(p.activation, settled(*up)));
            *y = settled(up.map_or(value, |up| settled(value) * settled(up)));
        }
    });
    y
}

/// Computes x / √(mean(x²) + ε) · γ for rows x \[R, n\].
pub fn norm(p: &Norm, x: &[f32], gamma: &[f32]) -> Vec<f32> {
    let mut y = vec![0.0; p.rows * p.width];
    each_row(&mut y, p.width, &|row: usize, y: &mut [f32]| {
        let x = &x[row * p.width..][..p.width];
        let squares = dot(x.iter(), x.iter().copied());
        let root = reciprocal_root(squares * p.share() + p.epsilon);
        for ((y, x), gamma) in y.iter_mut().zip(x).zip(gamma) {
            *y = settled(settled(settled(*x) * root) * settled(*gamma));
        }
    });
    y
}

/// Computes y \[T, n\] from rows \[T·K, n\]; `weights` \[T·K\] and `base` \[T, n\] are empty where there are none.
pub fn combine(p: &Combine, [rows, weights, base]: [&[f32]; 3]) -> Vec<f32> {
    let mut y = vec![0.0; p.tokens * p.width];
    each_row(&mut y, p.width, &|token: usize, y: &mut [f32]| {
        for (column, y) in y.iter_mut().enumerate() {
            let mut sum = 0.0;
            for slot in token * p.top_k..(token + 1) * p.top_k {
                let row = settled(rows[slot * p.width + column]);
                sum += weights
                    .get(slot)
                    .map_or(row, |weight| settled(*weight) * row);
            }
            let scaled = p.scale * sum;
            let base = base.get(token * p.width + column);
            *y = settled(base.map_or(scaled, |base| settled(*base) + scaled));
        }
    });
    y
}

/// Computes y \[B, Q, H, D\] from x of this shape and the tables \[B or 1, Q, half\].
pub fn rotate(p: &Rotate, x: &[f32], [cos, sin]: [&[f32]; 2]) -> Vec<f32> {
    let mut y = vec![0.0; x.len()];
    each_row(&mut y, p.width, &|row: usize, y: &mut [f32]| {
        let x = &x[row * p.width..][..p.width];
        for (d, y) in y.iter_mut().enumerate() {
            let Some(([left, right], second)) = p.pair(d) else {
                *y = settled(x[d]);
                continue;
            };
            let angle = p.angle(row, d);
            let [left, right, cos, sin] = [x[left], x[right], cos[angle], sin[angle]].map(settled);
            *y = settled(if second {
                right * cos + left * sin
            } else {
                left * cos - right * sin
            });
        }
    });
    y
}

/// A sequence's tokens of one key head, in a pool of words.
struct Head<'a> {
    layout: &'a Layout,
    places: &'a Places<'a>,
    pool: &'a [i32],
    /// The sequence, and the key head.
    at: [usize; 2],
}

impl Head<'_> {
    /// The index of the first word of a token's block; `None` if the pool doesn't have its page.
    fn block(&self, token: usize) -> Option<usize> {
        self.places.block(self.layout, self.at, token)
    }

    fn key(&self, block: usize, token: usize) -> impl Iterator<Item = f32> {
        let words = self.pool[block + token % BLOCK..].iter().step_by(BLOCK);
        words.map(|word| f32::from_bits(*word as u32))
    }

    fn value(&self, block: usize, token: usize, d: usize) -> f32 {
        let l = self.layout;
        let row = BLOCK * l.head_dim() + token % BLOCK * l.value_dim();
        f32::from_bits(self.pool[block + row + d] as u32)
    }
}

/// Computes o \[B, Hq, Sq, Dv\] of q \[B, Hq, Sq, D\] over a pool of words in f32; `sinks` \[Hq\] is empty where there are none.
///
/// # Panics
/// For an attention that [`Seen::of`] refuses.
pub fn attend(
    attend: &Attend,
    places: &Places<'_>,
    [q, sinks]: [&[f32]; 2],
    pool: &[i32],
) -> Vec<f32> {
    let (p, layout) = (attend.attention(), attend.layout());
    let seen =
        Seen::of(attend).unwrap_or_else(|error| unreachable!("a checked attention: {error}"));
    let s = *p.sizes();
    let mut o = vec![0.0; p.query_rows() * s.value_dim];
    let rows = o.par_chunks_mut(s.value_dim).enumerate();
    rows.for_each(|(row, o)| {
        let (head, query) = (row / s.queries, row % s.queries);
        let (sequence, head) = (head / s.heads, head % s.heads);
        let [start, end] = places.span(sequence);
        let position = start + query;
        if position >= end {
            return;
        }
        let of = Head {
            layout,
            places,
            pool,
            at: [sequence, head / p.group()],
        };
        let q = &q[row * s.head_dim..][..s.head_dim];
        let first = (position + 1).saturating_sub(seen.window as usize);
        let tokens = (first..=position).filter_map(|token| Some((token, of.block(token)?)));
        let scores = tokens.map(|(token, block)| {
            let dot = dot(q.iter(), of.key(block, token));
            (token, block, score(dot, p.scale(), &seen))
        });
        soften(&scores.collect::<Vec<_>>(), sinks.get(head), &of, o);
    });
    o
}

/// The score of a product ⟨q, k⟩.
fn score(dot: f32, scale: f32, seen: &Seen) -> f32 {
    let score = settled(settled(dot) * scale);
    match seen.cap() {
        Some([cap, uncap]) => settled(cap * tanh(settled(score * uncap))),
        None => score,
    }
}

/// Fills o \[Dv\] with the values of the tokens, weighted by the softmax of their scores.
fn soften(scores: &[(usize, usize, f32)], sink: Option<&f32>, of: &Head<'_>, o: &mut [f32]) {
    let sink = sink.map(|sink| settled(*sink));
    let top = scores.iter().map(|(.., score)| *score);
    let top = top.fold(sink.unwrap_or(f32::MIN), f32::max);
    let shares: Vec<f32> = scores.iter().map(|(.., score)| exp(score - top)).collect();
    let total = shares.iter().fold(0.0, |sum, share| sum + share);
    let total = sink.map_or(total, |sink| total + exp(sink - top));
    if scores.is_empty() {
        return;
    }
    let factor = reciprocal(total);
    for (d, o) in o.iter_mut().enumerate() {
        let mut sum = 0.0;
        for ((token, block, _), share) in scores.iter().zip(&shares) {
            sum += settled(*share) * settled(of.value(*block, *token, d));
        }
        *o = settled(settled(sum) * factor);
    }
}
