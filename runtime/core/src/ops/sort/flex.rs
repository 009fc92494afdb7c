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
    let tensors = [
        int_tensor(&order, &[slots]),
        int_tensor(&offsets, &[experts + 1]),
        int_tensor(&positions, &[slots]),
        int_tensor(&[slots as u32 - kept], &[1]),
    ];
    tensors.map(Value::Word).into()
}
