//! The sort of slots by expert, after the capacity has dropped some; shapes as in
//! [`moebius_ops::permute`].

use crate::ops::call::Request;
use crate::ops::{Assignment, CapacityRule, DeviceValue};
use crate::{Error, device};
use burn::tensor::{Int, Tensor};
use moebius_ops::permute::sorting::Problem;
use moebius_ops::{Permute, routing};
use moebius_shaders::grouped_gemm::Variant;

impl Assignment {
    /// Sorts the slots of `indices` \[T,K\] with router weights \[T,K\].
    pub(crate) fn new(
        indices: Tensor<2, Int>,
        weights: Tensor<2>,
        experts: usize,
        rule: CapacityRule,
        variant: Option<Variant>,
    ) -> Result<Self, Error> {
        let ([tokens, top_k], device) = (indices.dims(), weights.device());
        let routing = routing::Problem::new(tokens, experts, top_k)?;
        let problem = Problem::new(&routing, rule.capacity, rule.factors.is_some())?;
        let rows = problem.row_bound();
        let variant = device::plan(&device, |device| -> Result<_, Error> {
            Ok(Variant::or_portable(variant, rows, experts, device))
        })?;
        let mask = rule.mask.is_some();
        let tile_rows = variant.map(Variant::tile_rows);
        let call = Request::new(Permute::Sort { problem, mask }, &device, &tile_rows)?;
        let call = call.reads([weights]).reads([indices]).reads(rule.mask);
        let mut results = call.reads(rule.factors).run();
        let sorted = Sorted {
            order: results.value(),
            offsets: results.value(),
            positions: results.value(),
            dropped: results.value(),
            tiles: results.next(),
        };
        Ok(Self {
            sorted,
            routing,
            row_bound: rows,
            variant,
        })
    }
}

/// Slots sorted by expert.
#[derive(Clone, Debug)]
pub(crate) struct Sorted {
    /// \[S\]: the slot of a sorted row.
    pub(crate) order: DeviceValue,
    /// \[E+1\].
    pub(crate) offsets: DeviceValue,
    /// \[S\]: the sorted row of a slot, −1 for none.
    pub(crate) positions: DeviceValue,
    /// \[1\]: slots that reach no expert.
    pub(crate) dropped: DeviceValue,
    /// \[3·max_tiles\]: how kernels walk the segments; there where kernels run.
    pub(crate) tiles: Option<DeviceValue>,
}

impl Sorted {
    /// The order and the offsets, as most descriptions have them.
    pub(in crate::ops) fn segments(&self) -> [&DeviceValue; 2] {
        [&self.order, &self.offsets]
    }

    /// What kernels read beside the segments.
    pub(in crate::ops) fn tiles(&self) -> Option<(&'static str, DeviceValue)> {
        self.tiles.clone().map(|tiles| ("tiles", tiles))
    }
}
