//! Moving slots between the order of tokens and the order of experts.
//!
//! A slot is a (token, choice) pair, s = t·K + k. The sort is stable. Keys u32 \[S\] hold the expert of every slot, or E for a slot
//! that goes nowhere. Results, all u32:
//! - `order` \[S\]: slots sorted by key, equal keys in slot order; entries past `offsets[E]` go nowhere.
//! - `offsets` \[E+1\]: expert e owns `order[offsets[e]..offsets[e+1]]`.
//! - `positions` \[S\]: the index of a slot in `order`; [`NOWHERE`] for a slot without an expert.
//! - `dropped` \[1\]: the number of slots that go nowhere.
//! - `tiles` \[3·max_tiles\]: (expert, first row, one past the last) of every tile of at most `tile_rows`
//!   rows; (E, 0, 0) for no tile.
//!
//! Row r of a *sorted* buffer belongs to the slot `order[r]`. Such a buffer has R = [`Problem::row_bound`] rows, the largest
//! number that a routing can produce. A caller that sorts more slots breaks the contract: `tiles` misses the last ones, and
//! kernels would read and write past the ends of sorted buffers.

pub mod capacity;
pub mod combine;
pub mod dispatch;
pub mod sorting;
pub mod weights_gradient;

pub use capacity::{Capacity, capacities_reference};

use crate::element::Element;
use crate::error::{Mismatch, fits};
use crate::routing;
use serde::{Deserialize, Serialize};

/// The position of a slot that no expert has.
pub const NOWHERE: u32 = u32::MAX;

getters! {
    /// A sort of `slots` slots into `experts` segments.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Problem {
        /// Slots S.
        slots: usize,
        /// Experts E.
        experts: usize,
        /// Rows of a tile.
        tile_rows: usize,
        /// The largest number of rows R of a sorted buffer.
        row_bound: usize,
    }
}

impl Problem {
    /// A sort of `slots` slots by expert, whose segments are cut into tiles of `tile_rows` rows.
    ///
    /// # Errors
    /// [`Mismatch`] when there are no experts, no rows per tile, or more slots than 31 bits count.
    pub fn new(slots: usize, experts: usize, tile_rows: usize) -> Result<Self, Mismatch> {
        Mismatch::positive(&[("experts", experts), ("tile rows", tile_rows)])?;
        let right = fits(&[slots, experts.saturating_add(1)]);
        Mismatch::unless(right, "slots", "fewer than 2^31 / (experts + 1)", slots)?;
        Ok(Self {
            slots,
            experts,
            tile_rows,
            row_bound: slots,
        })
    }

    /// A copy for routings in which at most `rows` slots have an expert.
    ///
    /// # Errors
    /// [`Mismatch`] unless 1 ≤ `rows` ≤ S.
    pub fn with_row_bound(self, rows: usize) -> Result<Self, Mismatch> {
        check_row_bound(rows, self.slots)?;
        Ok(Self {
            row_bound: rows,
            ..self
        })
    }

    /// The largest number of tiles of such a routing; each expert's last tile may be partial.
    pub fn max_tiles(&self) -> usize {
        let partial = self.experts * (self.tile_rows - 1);
        ((self.row_bound + partial) / self.tile_rows).min(self.row_bound)
    }
}

/// Checks that 1 ≤ `rows` ≤ `slots`, or that both are 0.
pub fn check_row_bound(rows: usize, slots: usize) -> Result<(), Mismatch> {
    let right = (1.min(slots)..=slots).contains(&rows);
    let expected = format_args!("1 to {slots} (the slots)");
    Mismatch::unless(right, "row bound", expected, rows)
}

/// The results of [`reference()`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sorted {
    /// Slots sorted by expert; slots that go nowhere are last.
    pub order: Vec<u32>,
    /// The first row of each expert's segment, and the end of the last segment.
    pub offsets: Vec<u32>,
    /// The index of each slot in `order`; [`NOWHERE`] for a slot that goes nowhere.
    pub positions: Vec<u32>,
}

/// The oracle: a stable sort of the slots by key.
pub fn reference(keys: &[u32], experts: usize) -> Sorted {
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    order.sort_by_key(|slot| keys[*slot as usize].min(experts as u32));
    let before = |e: usize| keys.iter().filter(|key| (**key as usize) < e).count() as u32;
    let offsets: Vec<u32> = (0..=experts).map(before).collect();
    let mut positions = vec![NOWHERE; keys.len()];
    for (row, slot) in order.iter().enumerate().take(offsets[experts] as usize) {
        positions[*slot as usize] = row as u32;
    }
    Sorted {
        order,
        offsets,
        positions,
    }
}

getters! {
    /// Rows of `width` elements: \[T, width\] in the order of tokens, \[R, width\] sorted by expert.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct RowsProblem {
        /// Tokens T.
        tokens: usize,
        /// Experts E.
        experts: usize,
        /// Slots per token K.
        top_k: usize,
        /// Rows of a sorted buffer R.
        row_bound: usize,
        /// Elements of a row.
        width: usize,
        /// Type of the rows.
        element: Element,
    }
}

impl RowsProblem {
    /// The rows of the tokens of `routing`, of whose slots at most `row_bound` have an expert.
    ///
    /// # Errors
    /// [`Mismatch`] when `width` or `row_bound` is 0, `row_bound` exceeds the slots, or an index would not fit 31 bits.
    pub fn new(
        routing: &routing::Problem,
        row_bound: usize,
        width: usize,
        element: Element,
    ) -> Result<Self, Mismatch> {
        Mismatch::positive(&[("width", width)])?;
        check_row_bound(row_bound, routing.slots())?;
        Mismatch::index("slots x width", &[routing.slots(), width])?;
        Ok(Self {
            tokens: routing.tokens(),
            experts: routing.experts(),
            top_k: routing.top_k(),
            row_bound,
            width,
            element,
        })
    }

    /// Repeats the constructor's checks for a deserialised problem.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        let routing = routing::Problem::new(self.tokens, self.experts, self.top_k)?;
        Self::new(&routing, self.row_bound, self.width, self.element).map(drop)
    }

    /// The number of slots S = T·K.
    pub fn slots(&self) -> usize {
        self.tokens * self.top_k
    }
}

#[cfg(test)]
mod tests {
    use super::{NOWHERE, Problem, RowsProblem, reference};
    use crate::{Element, routing};

    #[test]
    fn slots_of_an_expert_keep_their_order() {
        let sorted = reference(&[2, 0, 3, 0, 2], 3);
        assert_eq!(sorted.order, [1, 3, 0, 4, 2]);
        assert_eq!(sorted.offsets, [0, 2, 2, 4]);
        assert_eq!(sorted.positions, [2, 0, NOWHERE, 1, 3]);
    }

    /// With 3 experts and tiles of 4 rows, each expert may have a last tile of one row.
    #[test]
    fn fewer_rows_need_fewer_tiles() {
        let problem = Problem::new(100, 3, 4).unwrap();
        assert_eq!((problem.row_bound(), problem.max_tiles()), (100, 27));
        let bounded = problem.with_row_bound(10).unwrap();
        assert_eq!((bounded.row_bound(), bounded.max_tiles()), (10, 4));
        // There are never more tiles than rows.
        assert_eq!(problem.with_row_bound(2).unwrap().max_tiles(), 2);
        assert!(problem.with_row_bound(0).is_err() && problem.with_row_bound(101).is_err());
    }

    #[test]
    fn sizes_that_make_no_sense_are_shape_errors() {
        let routing = routing::Problem::new(10, 4, 2).unwrap();
        let new = |rows, width| RowsProblem::new(&routing, rows, width, Element::F32);
        assert!(new(20, 1).is_ok() && new(1, 1).is_ok());
        assert!(new(0, 1).is_err() && new(21, 1).is_err());
        assert!(new(20, 0).is_err() && new(20, 1 << 27).is_err());
    }
}
