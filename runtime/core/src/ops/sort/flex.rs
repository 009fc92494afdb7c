//! The sort on the host.

use crate::ops::host::{Operands, floats, int_tensor, words};
use crate::ops::tensors::Value;
use burn::backend::Flex;
use moebius_ops::moe::sorting::Problem;
use moebius_ops::permute::{NOWHERE, capacities_reference, capacity};

/// The order, offsets, positions and number of dropped slots.
pub(in crate::ops) fn run(sort: &Problem, mut b: Operands) -> Vec<Value<Flex>> {
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
    let mut order: Vec<u32> = (0..slots as u32).collect();
    order.sort_by_key(|slot| keys[*slot as usize].min(experts as u32));
    let mut offsets = vec![0u32; experts + 1];
    for expert in keys.iter().filter(|key| (**key as usize) < experts) {
        offsets[*expert as usize + 1] += 1;
    }
    for e in 0..experts {
        offsets[e + 1] += offsets[e];
    }
    let kept = offsets[experts];
    let mut positions = vec![NOWHERE; slots];
    for (row, slot) in order.iter().enumerate().take(kept as usize) {
        positions[*slot as usize] = row as u32;
    }
    let tensors = [
        int_tensor(&order, &[slots]),
        int_tensor(&offsets, &[experts + 1]),
        int_tensor(&positions, &[slots]),
        int_tensor(&[slots as u32 - kept], &[1]),
    ];
    tensors.map(Value::Word).into()
}
