//! The sort of slots, and moved rows, on Flex. Capacities are the kernels' references.

use crate::ops::host::{
    Floats, Operands, Rows, Words, cast_like, float_tensor, floats, int_tensor, segments, words,
};
use crate::ops::tensors::Value;
use burn::backend::Flex;
use moebius_host::permute as host;
use moebius_ops::Permute;
use moebius_ops::permute::sorting::Problem as Sort;
use moebius_ops::permute::{RowsProblem, capacities_reference, capacity};

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
    let sorted = host::sort(&keys, experts);
    let kept = sorted.offsets[experts];
    [
        int_tensor(&sorted.order, &[slots]),
        int_tensor(&sorted.offsets, &[experts + 1]),
        int_tensor(&sorted.positions, &[slots]),
        int_tensor(&[slots as u32 - kept], &[1]),
    ]
}

fn gather(p: &RowsProblem, mut b: Operands) -> Rows {
    let (segments, dtype) = (segments(&mut b, 0), b.get("x").float().dtype());
    let rows = host::gather(p, &segments, Floats::of(&mut b, "x").values());
    cast_like(float_tensor(rows, &[p.row_bound(), p.width()]), dtype)
}

fn combine(p: &RowsProblem, mut b: Operands) -> Rows {
    let (segments, dtype) = (segments(&mut b, 0), b.get("rows").float().dtype());
    let [rows, weights] = ["rows", "weights"].map(|name| Floats::of(&mut b, name));
    let y = host::combine(p, &segments, rows.values(), weights.maybe());
    cast_like(float_tensor(y, &[p.tokens(), p.width()]), dtype)
}

fn combine_backward(p: &RowsProblem, mut b: Operands) -> [Rows; 2] {
    let (segments, dtype) = (segments(&mut b, 0), b.get("rows").float().dtype());
    let floats = ["rows", "weights", "dy"].map(|name| Floats::of(&mut b, name));
    let [rows, weights, dy] = floats.each_ref().map(Floats::values);
    let [drows, dweights] = host::combine_backward(p, &segments, [rows, weights], dy);
    let drows = float_tensor(drows, &[p.row_bound(), p.width()]);
    let dweights = float_tensor(dweights, &[p.tokens(), p.top_k()]);
    [cast_like(drows, dtype), dweights]
}
