//! Moved rows on the host.

use super::host::{Segments, combined, gathered, row_dots};
use super::{CombineGradients, NeighboursCall, RowsCall, RowsGradients, RowsOps};
use crate::ops::host::{cast_like, float_tensor, floats, to_f32};
use crate::ops::{Maybe, Sorted};
use burn::backend::Flex;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;

type Rows = FloatTensor<Flex>;

impl RowsOps for Flex {
    fn moe_gather(x: Rows, sorted: Sorted<Self>, call: RowsCall) -> Rows {
        let segments = Segments::of(sorted);
        let (dtype, top_k) = (x.dtype(), call.problem.top_k());
        let rows = gathered(&to_f32(x), &segments, top_k);
        cast_like(
            segments.padded(rows, call.problem.row_bound(), call.problem.width()),
            dtype,
        )
    }

    fn moe_combine(rows: Rows, weights: Maybe<Self>, sorted: Sorted<Self>, call: RowsCall) -> Rows {
        let segments = Segments::of(sorted);
        let dtype = rows.dtype();
        let weights = weights.into_option().map(floats);
        let shape = [call.problem.top_k(), call.problem.width()];
        let y = combined(&[to_f32(rows)], weights.as_deref(), &segments, shape);
        cast_like(y, dtype)
    }

    fn moe_neighbours(rows: Rows, sorted: Sorted<Self>, call: NeighboursCall) -> Rows {
        let (dtype, width) = (rows.dtype(), call.problem.width());
        let values = floats(rows);
        let mut out = vec![0.0; call.problem.row_bound() * 3 * width];
        for (row, place, from) in pairs(&Segments::of(sorted), &call) {
            let to = &mut out[(row * 3 + place) * width..][..width];
            to.copy_from_slice(&values[from * width..][..width]);
        }
        let out = float_tensor(out, &[call.problem.row_bound(), 3 * width]);
        cast_like(out, dtype)
    }
}

impl RowsGradients for Flex {
    fn moe_combine_backward(
        dy: Rows,
        rows: Rows,
        weights: Rows,
        sorted: Sorted<Self>,
        call: RowsCall,
    ) -> CombineGradients<Self> {
        let segments = Segments::of(sorted);
        let (dtype, top_k) = (rows.dtype(), call.problem.top_k());
        let dy = gathered(&to_f32(dy), &segments, top_k);
        let dots = row_dots(&segments.unpadded(to_f32(rows)), &dy);
        let drows = Self::float_mul(dy, segments.of_rows(&floats(weights)));
        CombineGradients {
            rows: cast_like(
                segments.padded(drows, call.problem.row_bound(), call.problem.width()),
                dtype,
            ),
            weights: segments.to_slots(&dots, top_k),
        }
    }

    fn moe_neighbours_backward(dy: Rows, sorted: Sorted<Self>, call: NeighboursCall) -> Rows {
        let (dtype, width) = (dy.dtype(), call.problem.width());
        let values = floats(dy);
        let mut out = vec![0.0; call.problem.row_bound() * width];
        for (row, place, from) in pairs(&Segments::of(sorted), &call) {
            let sum = &mut out[from * width..][..width];
            for (sum, value) in sum.iter_mut().zip(&values[(row * 3 + place) * width..]) {
                *sum += value;
            }
        }
        let out = float_tensor(out, &[call.problem.row_bound(), width]);
        cast_like(out, dtype)
    }
}

/// (row, place 0..3, the row it shows there) wherever that row is of the same sequence.
fn pairs(segments: &Segments, call: &NeighboursCall) -> Vec<(usize, usize, usize)> {
    let problem = &call.problem;
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
