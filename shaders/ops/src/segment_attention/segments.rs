//! The segment of every row.

use crate::error::Mismatch;
use crate::permute::{Sorted, check_row_bound};
use serde::{Deserialize, Serialize};

getters! {
    /// Which rows belong together.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Segments {
        /// Slots S.
        slots: usize,
        /// Sorted rows R.
        rows: usize,
        /// Experts E.
        experts: usize,
        /// Slots of a sequence.
        sequence_slots: usize,
    }
}

impl Segments {
    /// Segments of `slots` = T·`top_k` slots in sequences of `sequence` tokens, the last of which
    /// may be shorter.
    ///
    /// # Errors
    /// [`Mismatch`] when a size is 0, the slots are no multiple of `top_k`, or more than 30 bits
    /// count.
    pub fn new(
        slots: usize,
        experts: usize,
        top_k: usize,
        sequence: usize,
    ) -> Result<Self, Mismatch> {
        Mismatch::positive(&[
            ("experts", experts),
            ("top_k", top_k),
            ("sequence", sequence),
        ])?;
        Mismatch::of_tokens(slots, top_k)?;
        Mismatch::unless(slots < 1 << 30, "slots", "fewer than 2^30", slots)?;
        Ok(Self {
            slots,
            rows: slots,
            experts,
            // A sequence longer than all tokens is one of all tokens.
            sequence_slots: sequence.min((slots / top_k).max(1)) * top_k,
        })
    }

    /// A copy with at most `rows` sorted rows, whatever the routing.
    ///
    /// # Errors
    /// [`Mismatch`] unless 1 ≤ `rows` ≤ S.
    pub fn with_row_bound(self, rows: usize) -> Result<Self, Mismatch> {
        check_row_bound(rows, self.slots)?;
        Ok(Self { rows, ..self })
    }

    /// Checks what the constructors do, of segments that were read.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        let all = Self::new(self.slots, self.experts, 1, self.sequence_slots)?;
        all.with_row_bound(self.rows).map(drop)
    }
}

/// The oracle: (first row, one past the last) of every row's segment \[R,2\].
pub fn reference_segments(segments: &Segments, sorted: &Sorted) -> Vec<u32> {
    let mut found = vec![0; 2 * segments.rows];
    for e in 0..segments.experts {
        let rows = sorted.offsets[e] as usize..sorted.offsets[e + 1] as usize;
        let sequence = |row: usize| sorted.order[row] as usize / segments.sequence_slots;
        for row in rows.clone() {
            let mut same = rows
                .clone()
                .filter(|other| sequence(*other) == sequence(row));
            let first = same.next().unwrap_or(row);
            let last = same.next_back().unwrap_or(first);
            found[2 * row] = first as u32;
            found[2 * row + 1] = last as u32 + 1;
        }
    }
    found
}
