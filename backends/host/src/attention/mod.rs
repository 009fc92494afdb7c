//! Attention in f32: blocks of queries by blocks of keys, with one task per processor at a time.
//!
//! | file | contents |
//! |---|---|
//! | `scores.rs` | the rules on a block of scores, and the choice of blocks to compute |
//! | `forward.rs` | sources of keys and values; o and its log-sum-exp for many and for few queries |
//! | `in_place.rs` | scores and sums over keys and values that aren't packed, as a cache stores them |
//! | `backward.rs` | the gradients of queries, keys, values and biases by distance |
//! | `tables.rs` | the gradients of dense biases and of sinks |
//! | `panels.rs` | products in registers, or of single pairs if values aren't finite |
//!
//! As in Burn, a key with a score of −∞ counts as hidden, and so does one with a probability below 2⁻¹²⁶.

mod backward;
mod forward;
mod in_place;
mod panels;
mod scores;
mod tables;

use backward::{Incoming, Packed};
pub(crate) use forward::{Source, run as over};
pub(crate) use in_place::Tokens;
use moebius_ops::AttentionPass;
pub(crate) use panels::Line;
pub use scores::Operands;

/// Computes o \[B, Hq, Sq, Dv\] and its log-sum-exp \[B, Hq, Sq\].
pub fn forward(operands: &Operands<'_>) -> [Vec<f32>; 2] {
    let problem = operands.problem;
    let mut o = vec![0.0; problem.query_rows() * problem.sizes().value_dim];
    let mut lse = vec![f32::MIN; problem.query_rows()];
    over(operands, operands, [&mut o, &mut lse]);
    [o, lse]
}

/// The results of a forward pass, and the gradient of one of them; slices that a backward pass doesn't read may be empty.
#[derive(Clone, Copy, Debug)]
pub struct Results<'a> {
    /// o \[B, Hq, Sq, Dv\].
    pub o: &'a [f32],
    /// The gradient of o.
    pub d_o: &'a [f32],
    /// The log-sum-exp \[B, Hq, Sq\].
    pub lse: &'a [f32],
    /// The gradient of the log-sum-exp.
    pub d_lse: &'a [f32],
}

/// Computes the gradients through the result that `pass` names, in the order of the description.
pub fn backward(
    operands: &Operands<'_>,
    pass: AttentionPass,
    results: &Results<'_>,
) -> Vec<Vec<f32>> {
    let (through_o, tables) = match pass {
        AttentionPass::LogSumExp(tables) => (false, tables),
        AttentionPass::Output(tables) => (true, tables),
        AttentionPass::Forward => unreachable!("a forward pass has no gradients"),
    };
    let Results { o, d_o, lse, d_lse } = *results;
    let width = operands.problem.sizes().value_dim;
    let rows = o.chunks(width).zip(d_o.chunks(width));
    let incoming = Incoming {
        d_o: through_o.then_some(d_o),
        lse,
        delta: if through_o {
            rows.map(|(o, d_o)| dot(o, d_o)).collect()
        } else {
            d_lse.iter().map(|d| -d).collect()
        },
    };
    let packed = Packed::all(operands);
    let found = backward::run(operands, &incoming, &packed);
    let mut all = vec![found.dq, found.dk];
    if through_o {
        all.push(found.dv);
    }
    if tables.bias {
        all.push(tables::bias(operands, &incoming, &packed));
    }
    if tables.relative {
        all.push(found.drelative);
    }
    if tables.sinks {
        all.push(tables::sinks(operands, &incoming));
    }
    all
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
