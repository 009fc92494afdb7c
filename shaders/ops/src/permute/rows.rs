//! What the moves of rows between tokens and experts have in common: shapes, limits, weights.

use crate::element::Element;
use crate::error::Mismatch;
use crate::routing;
use serde::{Deserialize, Serialize};

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
    /// Rows of the tokens of `routing`, at most `row_bound` of whose slots have an expert.
    ///
    /// # Errors
    /// [`Mismatch`] for no width, no rows or more than slots, or an index that would not fit 31 bits.
    pub fn new(
        routing: &routing::Problem,
        row_bound: usize,
        width: usize,
        element: Element,
    ) -> Result<Self, Mismatch> {
        Mismatch::positive(&[("width", width)])?;
        super::check_row_bound(row_bound, routing.slots())?;
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

    /// Checks what the constructor does, of a problem that was read.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        let routing = routing::Problem::new(self.tokens, self.experts, self.top_k)?;
        Self::new(&routing, self.row_bound, self.width, self.element).map(drop)
    }

    /// Slots S = T·K.
    pub fn slots(&self) -> usize {
        self.tokens * self.top_k
    }
}

#[cfg(test)]
mod tests {
    use super::RowsProblem;
    use crate::{Element, routing};

    #[test]
    fn sizes_that_make_no_sense_are_shape_errors() {
        let routing = routing::Problem::new(10, 4, 2).unwrap();
        let new = |rows, width| RowsProblem::new(&routing, rows, width, Element::F32);
        assert!(new(20, 1).is_ok() && new(1, 1).is_ok());
        assert!(new(0, 1).is_err() && new(21, 1).is_err());
        assert!(new(20, 0).is_err() && new(20, 1 << 27).is_err());
    }
}
