//! Slots assigned to experts, and the differentiable operations on their rows.
//!
//! Every kind of expert is made of these: rows in (`gather`), a product per expert (`linear`),
//! what looks along a sequence (`neighbours`, `attention`), and rows out (`combine`). Each is a method in the
//! folder of its family. Rows are \[R, width\] in the order of their experts; those past the last expert's
//! are undefined and never reach a token.

use super::Sorted;
use burn::tensor::{Bool, Int, Tensor};
use moebius_ops::permute::Capacity;
use moebius_ops::routing;
use moebius_shaders::grouped_gemm::Variant;

/// Who decides how many slots an expert takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct CapacityRule {
    /// `None` never drops.
    pub(crate) capacity: Option<Capacity>,
    /// \[E\] f32: factors on the device instead of the capacity's own.
    pub(crate) factors: Option<Tensor<1>>,
    /// Experts that take any.
    pub(crate) mask: Option<Tensor<1, Bool>>,
}

/// Slots sorted by expert.
#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    pub(super) sorted: Sorted,
    pub(super) routing: routing::Problem,
    pub(super) row_bound: usize,
    /// What all products share, because it decides the tiles; absent without kernels.
    pub(super) variant: Option<Variant>,
}

impl Assignment {
    /// Tokens, experts and slots.
    pub(crate) fn routing(&self) -> routing::Problem {
        self.routing
    }

    /// \[1\]: slots that reach no expert.
    pub(crate) fn dropped(&self) -> Tensor<1, Int> {
        self.sorted.dropped.clone().words()
    }

    /// \[T,K\]: the sorted row of every slot, −1 for a slot that reaches no expert.
    pub(crate) fn positions(&self) -> Tensor<2, Int> {
        let positions = self.sorted.positions.clone().words::<1>();
        positions.reshape([self.routing.tokens(), self.routing.top_k()])
    }

    /// The same rows \[R, width\] with zeros past the last expert's, and so are their gradients.
    pub(crate) fn defined(&self, rows: Tensor<2>) -> Tensor<2> {
        let ([count, _], experts) = (rows.dims(), self.routing.experts());
        let offsets = self.sorted.offsets.clone().words::<1>();
        let used = offsets.narrow(0, experts, 1).expand([count]);
        let row = Tensor::<1, Int>::arange(0..count as i64, &rows.device()).cast(used.dtype());
        let undefined = row.greater_equal(used).reshape([count, 1]);
        let shape = rows.dims();
        rows.mask_fill(undefined.expand(shape), 0.0)
    }
}
