//! The sort on the host.

use super::{Limits, SortCall, SortOps, Sorted};
use crate::ops::Mask;
use crate::ops::host::{floats, int_tensor, words};
use burn::backend::Flex;
use burn::backend::tensor::{FloatTensor, IntTensor};
use moebius_ops::permute::NOWHERE;

impl SortOps for Flex {
    fn moe_sort(
        weights: FloatTensor<Self>,
        indices: IntTensor<Self>,
        limits: Limits<Self>,
        call: SortCall,
    ) -> Sorted<Self> {
        let sort = &call.problem;
        let (slots, experts) = (sort.slots(), sort.experts());
        let mut keys = words(indices);
        if let Some(rule) = sort.capacity() {
            let mask = match limits.mask {
                Mask::All => None,
                Mask::Only(mask) => Some(words(mask).iter().map(|m| *m != 0).collect::<Vec<_>>()),
            };
            let factors = limits.factors.into_option().map(floats);
            let capacities = moebius_ops::permute::capacities_reference(
                rule,
                slots,
                experts,
                mask.as_deref(),
                factors.as_deref(),
            );
            keys = moebius_ops::permute::capacity::reference(&keys, &floats(weights), &capacities);
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
        Sorted {
            order: int_tensor(&order, &[slots]),
            offsets: int_tensor(&offsets, &[experts + 1]),
            // Tiles are the kernels' way to walk the segments.
            tiles: int_tensor(&[], &[0]),
            positions: int_tensor(&positions, &[slots]),
            dropped: int_tensor(&[slots as u32 - kept], &[1]),
        }
    }
}
