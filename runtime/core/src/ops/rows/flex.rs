//! Moved rows on the host.

use super::host::{Segments, combined, gathered, row_dots};
use crate::ops::host::{Operands, Rows, cast_like, float_tensor, floats, to_f32};
use crate::ops::tensors::Value;
use burn::backend::Flex;
use burn::backend::ops::FloatTensorOps;
use moebius_ops::Rows as Operation;
use moebius_ops::permute::RowsProblem;
use moebius_ops::permute::neighbours::Problem as Neighbours;

pub(in crate::ops) fn run(operation: &Operation, mut b: Operands) -> Vec<Value<Flex>> {
    let results = match operation {
        Operation::Gather(p) => vec![gather(p, b)],
        Operation::Combine { problem, .. } => vec![combine(problem, b)],
        Operation::CombineBackward(p) => combine_backward(p, b).into(),
        Operation::Neighbours {
            problem, backward, ..
        } => vec![match backward {
            false => neighbours(problem, &Segments::of(&mut b, 0), b.float("x")),
            true => neighbours_backward(problem, &Segments::of(&mut b, 0), b.float("dout")),
        }],
        Operation::Attention { .. } => unreachable!("attention has a folder of its own"),
    };
    results.into_iter().map(Value::Float).collect()
}

fn gather(p: &RowsProblem, mut b: Operands) -> Rows {
    let (segments, x) = (Segments::of(&mut b, 0), b.float("x"));
    let dtype = x.dtype();
    let rows = gathered(&to_f32(x), &segments, p.top_k());
    cast_like(segments.padded(rows, p.row_bound(), p.width()), dtype)
}

fn combine(p: &RowsProblem, mut b: Operands) -> Rows {
    let (segments, rows) = (Segments::of(&mut b, 0), b.float("rows"));
    let dtype = rows.dtype();
    let weights = b.maybe_float("weights").map(floats);
    let shape = [p.top_k(), p.width()];
    let rows = to_f32(rows).to_contiguous();
    let y = combined(rows.storage(), weights.as_deref(), &segments, shape);
    cast_like(y, dtype)
}

fn combine_backward(p: &RowsProblem, mut b: Operands) -> [Rows; 2] {
    let (segments, rows) = (Segments::of(&mut b, 0), b.float("rows"));
    let dtype = rows.dtype();
    let dy = gathered(&to_f32(b.float("dy")), &segments, p.top_k());
    let dots = row_dots(&segments.unpadded(to_f32(rows)), &dy);
    let drows = Flex::float_mul(dy, segments.of_rows(&floats(b.float("weights"))));
    let drows = segments.padded(drows, p.row_bound(), p.width());
    [cast_like(drows, dtype), segments.to_slots(&dots, p.top_k())]
}

fn neighbours(p: &Neighbours, segments: &Segments, rows: Rows) -> Rows {
    let (dtype, width) = (rows.dtype(), p.width());
    let values = floats(rows);
    let mut out = vec![0.0; p.row_bound() * 3 * width];
    for (row, place, from) in pairs(segments, p) {
        let to = &mut out[(row * 3 + place) * width..][..width];
        to.copy_from_slice(&values[from * width..][..width]);
    }
    cast_like(float_tensor(out, &[p.row_bound(), 3 * width]), dtype)
}

fn neighbours_backward(p: &Neighbours, segments: &Segments, dy: Rows) -> Rows {
    let (dtype, width) = (dy.dtype(), p.width());
    let values = floats(dy);
    let mut out = vec![0.0; p.row_bound() * width];
    for (row, place, from) in pairs(segments, p) {
        let sum = &mut out[from * width..][..width];
        for (sum, value) in sum.iter_mut().zip(&values[(row * 3 + place) * width..]) {
            *sum += value;
        }
    }
    cast_like(float_tensor(out, &[p.row_bound(), width]), dtype)
}

/// (row, place 0..3, the row it shows there) wherever that row is of the same sequence.
fn pairs(segments: &Segments, problem: &Neighbours) -> Vec<(usize, usize, usize)> {
    let experts = segments.expert_of_rows();
    let sequence = |row: usize| segments.order[row] as usize / problem.top_k() / problem.sequence();
    let back = if problem.causal() { 2 } else { 1 };
    let mut pairs = Vec::new();
    for row in 0..experts.len() {
        for place in 0..3 {
            let Some(from) = (row + place).checked_sub(back) else {
                continue;
            };
            let same = from < experts.len()
                && experts[from] == experts[row]
                && sequence(from) == sequence(row);
            if same {
                pairs.push((row, place, from));
            }
        }
    }
    pairs
}
