//! The segment of every row: two searches among the rows of its expert; in a dense batch, whose rows are
//! the tokens in their order, a division.

use super::Plan;
use crate::expert_activation::expert_of;
use crate::prelude::*;
use cubecl::prelude::*;

/// The first row of \[low, high) whose slot is at least `slot`, or `high`; slots ascend there.
#[cube]
fn first_row_from(order: &[u32], low: usize, high: usize, slot: usize) -> usize {
    let mut first = low;
    let mut last = high;
    while first < last {
        let middle = (first + last) / 2;
        if (order[middle] as usize) < slot {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    first
}

/// One unit per sorted row.
#[cube(launch_unchecked)]
fn attention_segments(
    order: &[u32],
    offsets: &[u32],
    segments: &mut [u32],
    experts: usize,
    rows: usize,
    sequence_slots: usize,
) {
    if ABSOLUTE_POS < rows {
        let mut first = 0usize;
        let mut end = 0usize;
        if ABSOLUTE_POS < offsets[experts] as usize {
            let expert = expert_of(offsets, ABSOLUTE_POS, experts);
            let begin = offsets[expert] as usize;
            let beyond = offsets[expert + 1] as usize;
            let sequence = order[ABSOLUTE_POS] as usize / sequence_slots;
            let slot = sequence * sequence_slots;
            first = first_row_from(order, begin, ABSOLUTE_POS, slot);
            end = first_row_from(order, ABSOLUTE_POS, beyond, slot + sequence_slots);
        }
        segments[2 * ABSOLUTE_POS] = first as u32;
        segments[2 * ABSOLUTE_POS + 1] = end as u32;
    }
}

/// Enqueues the search for segments: one launch.
///
/// `order` u32 \[S\] and `offsets` u32 \[E+1\] are read, `segments` u32 \[R,2\] is written.
pub fn launch_segments(
    client: &Client,
    plan: &Plan,
    order: Handle,
    offsets: Handle,
    segments: Handle,
) {
    let p = &plan.problem.segments();
    if p.rows() == 0 {
        return;
    }
    // SAFETY: the buffers are as long as they are described; searches stay inside an expert's rows.
    unsafe {
        launched::note(|| "attention_segments");
        attention_segments::launch_unchecked(
            client,
            plan.per_row.count(),
            plan.per_row.dim(),
            bind(order),
            bind(offsets),
            bind(segments),
            p.experts(),
            p.rows(),
            p.sequence_slots(),
        );
    }
}

/// One unit per row of a dense batch.
#[cube(launch_unchecked)]
fn attention_sequences(segments: &mut [u32], rows: usize, sequence: usize) {
    if ABSOLUTE_POS < rows {
        let first = ABSOLUTE_POS / sequence * sequence;
        segments[2 * ABSOLUTE_POS] = first as u32;
        segments[2 * ABSOLUTE_POS + 1] = min(first + sequence, rows) as u32;
    }
}

/// [`launch_segments`] of a dense batch, into `segments` u32 \[R,2\]: one launch.
pub fn launch_sequences(client: &Client, plan: &Plan, segments: Handle) {
    let p = &plan.problem.segments();
    if p.rows() == 0 {
        return;
    }
    // SAFETY: the buffer is as long as it is described; units past the last row return.
    unsafe {
        launched::note(|| "attention_sequences");
        attention_sequences::launch_unchecked(
            client,
            plan.per_row.count(),
            plan.per_row.dim(),
            bind(segments),
            p.rows(),
            p.sequence_slots(),
        );
    }
}
