//! The sort of slots, and moved rows, on the host.

use super::host::{Segments, combined, gathered, row_dots};
use crate::ops::host::{Operands, Rows, Words, cast_like, floats, int_tensor, to_f32, words};
use crate::ops::tensors::Value;
use burn::backend::Flex;
use burn::backend::ops::FloatTensorOps;
use moebius_ops::Permute;
use moebius_ops::permute::sorting::Problem as Sort;
use moebius_ops::permute::{NOWHERE, RowsProblem, capacities_reference, capacity};

pub(in crate::ops) fn run(operation: &Permute, b: Operands) -> Vec<Value<Flex>> {
    let results = match operation {
        Permute::Sort { problem, .. } => return sort(problem, b).map(Value::Word).into(),
        Permute::Gather(p) => vec![gather(p, b)],
        Permute::Combine { problem, .. } => vec![combine(problem, b)],
        Permute::CombineBackward(p) => combine_backward(p, b).into(),
    };
    results.into_iter().map(Value::Float).collect()
}

/// The order, offsets, positions and number of dropped slots.
fn sort(sort: &Sort, mut b: Operands) -> [Words; 4] {
    let (slots, experts) = (sort.slots(), sort.experts());
    let mut keys = words(b.word("indices"));
    if let Some(rule) = sort.capacity() {
        let mask = b.maybe_word("mask").map(words);
        let mask: Option<Vec<bool>> = mask.map(|m| m.iter().map(|m| *m != 0).collect());
        let factors = b.maybe_float("factors").map(floats);
        let (mask, factors) = (mask.as_deref(), factors.as_deref());
        let capacities = capacities_reference(&rule, slots, experts, mask, factors);
        keys = capacity::reference(&keys, &floats(b.float("weights")), &capacities);
    }
    let expert = |slot: usize| keys[slot].min(experts as u32) as usize;
    // Slots without an expert come last.
    let mut offsets = vec![0_u32; experts + 2];
    for slot in 0..slots {
        offsets[expert(slot) + 1] += 1;
    }
    for e in 0..=experts {
        offsets[e + 1] += offsets[e];
    }
    let mut next = offsets.clone();
    offsets.truncate(experts + 1);
    let kept = offsets[experts];
    let (mut order, mut positions) = (vec![0; slots], vec![NOWHERE; slots]);
    for slot in 0..slots {
        let row = next[expert(slot)];
        next[expert(slot)] += 1;
        order[row as usize] = slot as u32;
        if row < kept {
            positions[slot] = row;
        }
    }
    [
        int_tensor(&order, &[slots]),
        int_tensor(&offsets, &[experts + 1]),
        int_tensor(&positions, &[slots]),
        int_tensor(&[slots as u32 - kept], &[1]),
    ]
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
