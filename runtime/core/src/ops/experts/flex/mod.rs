//! The experts on Flex.

mod activation;
mod backward;
mod forward;

pub(in crate::ops) use activation::HiddenActivation;

use super::StageClock;
use crate::ops::host::{Operands, Rows, cast_like, float_tensor, floats, to_f32};
use crate::ops::host_product::pieces;
use crate::ops::permute::host::{Segments, combined};
use crate::ops::tensors::Value;
use backward::Backward;
use burn::backend::Flex;
use forward::Forward;
use moebius_host::Spare;
use moebius_ops::Experts as Operation;
use moebius_ops::experts::Problem;
use moebius_shaders::Stage;
use std::ops::Range;

/// The weights, contiguous, and the biases.
struct Experts {
    w_in: Rows,
    w_out: Rows,
    /// \[E, f or 2f\] and \[E,H\].
    biases: [Option<Vec<f32>>; 2],
}

impl Experts {
    fn of(b: &mut Operands) -> Self {
        Self {
            w_in: b.float("w_in").to_contiguous(),
            w_out: b.float("w_out").to_contiguous(),
            biases: ["b_in", "b_out"].map(|name| b.maybe_float(name).map(floats)),
        }
    }

    /// The bias of the first or second product of expert `e`.
    fn bias(&self, which: usize, e: usize, columns: usize) -> Option<&[f32]> {
        let bias = self.biases[which].as_ref();
        bias.map(|bias| &bias[e * columns..][..columns])
    }
}

pub(in crate::ops) fn run(
    operation: &Operation,
    clock: Option<&StageClock>,
    b: Operands,
) -> Vec<Value<Flex>> {
    match operation {
        Operation::Forward { problem, keep } => forward(problem, *keep, clock, b),
        Operation::Backward {
            problem,
            x,
            weights,
            ..
        } => gradients(problem, [*x, *weights], b),
    }
}

/// y, and the first product before its activation where it is kept.
fn forward(
    problem: &Problem,
    keep: bool,
    clock: Option<&StageClock>,
    mut b: Operands,
) -> Vec<Value<Flex>> {
    let (segments, experts) = (Segments::of(&mut b, 0), Experts::of(&mut b));
    let (x, weights) = (b.float("x").to_contiguous(), floats(b.float("weights")));
    let dtype = x.dtype();
    let forward = Forward {
        problem,
        tokens: &segments.tokens(problem.routing.top_k()),
        x: &x,
        experts: &experts,
    };
    let columns = problem.columns_in();
    let rows = segments.order.len();
    let mut pre = vec![0.0; if keep { rows * columns } else { 0 }];
    let mut y = Spare::new(rows * problem.hidden);
    forward.run(&segments, (&mut y, &mut pre), clock);
    let shape = [problem.routing.top_k(), problem.hidden];
    let y = combined(&y, Some(&weights), &segments, shape);
    if let Some(clock) = clock {
        clock.mark(Stage::Combine);
    }
    let pre = keep.then(|| {
        let pre = segments.padded(
            float_tensor(pre, &[rows, columns]),
            problem.row_bound,
            columns,
        );
        cast_like(pre, dtype)
    });
    let y = cast_like(y, dtype);
    [y].into_iter().chain(pre).map(Value::Float).collect()
}

/// Gradients of x where it is needed, the router weights, and of weights and biases where they are.
fn gradients(problem: &Problem, needs: [bool; 2], mut b: Operands) -> Vec<Value<Flex>> {
    let (segments, experts) = (Segments::of(&mut b, 0), Experts::of(&mut b));
    let x = b.float("x").to_contiguous();
    let dtype = x.dtype();
    let dy = b.float("dy").to_contiguous();
    let pre = b.maybe_float("pre");
    let weights = floats(b.float("weights"));
    let pass = Backward {
        forward: Forward {
            problem,
            tokens: &segments.tokens(problem.routing.top_k()),
            x: &x,
            experts: &experts,
        },
        segments: &segments,
        dy: &to_f32(dy),
        pre: pre.map(|pre| segments.unpadded(to_f32(pre)).to_contiguous()),
        weights: segments
            .order
            .iter()
            .map(|slot| weights[*slot as usize])
            .collect(),
    };
    let gradients = pass.run(needs, dtype).into_iter();
    gradients.map(Value::Float).collect()
}

/// Some rows of an expert, and where their results go.
struct Piece<'a, const N: usize> {
    expert: usize,
    rows: Range<usize>,
    to: [&'a mut [f32]; N],
}

/// The sorted rows of some experts, a task's at a time; results have so many values to a row.
fn pieces_of<'a, const N: usize>(
    segments: &Segments,
    experts: Range<usize>,
    mut results: [(&'a mut [f32], usize); N],
) -> Vec<Piece<'a, N>> {
    let mut all = Vec::new();
    for expert in experts {
        let of_expert = segments.rows(expert);
        for rows in pieces(of_expert.len()) {
            let to = results.each_mut().map(|(rest, width)| {
                let (to, others) = std::mem::take(rest).split_at_mut(rows.len() * *width);
                *rest = others;
                to
            });
            all.push(Piece {
                expert,
                rows: of_expert.start + rows.start..of_expert.start + rows.end,
                to,
            });
        }
    }
    all
}
