//! The kernels of [`moebius_ops::GroupedGemm`].

use super::{Family, Kernels, Tiles};
use crate::fp8::Conversion;
use crate::fp8_mma;
use crate::grouped_gemm::{Choice, Variant, gradient, launch, plan};
use crate::prelude::*;
use moebius_ops::GroupedGemm;
use moebius_ops::grouped_gemm::Problem;

/// What a caller decides about a product.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProductHow {
    /// How it is computed, which decides the tiles of the sort of its rows; `None` leaves it to the plan.
    pub variant: Option<Variant>,
    /// How FP8 codes of weights are decoded.
    pub conversion: Conversion,
}

impl Family for GroupedGemm {
    type How = ProductHow;

    fn kernels(&self, how: &ProductHow, device: &Capability) -> Result<Kernels, PlanError> {
        let variant =
            |p: &Problem| Variant::or_portable(how.variant, p.row_bound, p.experts, device);
        Ok(match self {
            Self::Linear(p) => {
                let plan = plan(*p, device, Choice::of(variant(p)))?;
                let tiles = tiles(p, plan.tile_rows());
                Kernels::of(plan, launch).walking(tiles)
            }
            Self::LinearBackward { problem: p, .. } => {
                let plan = gradient::plan(*p, variant(p), device)?;
                Kernels::of(plan, gradient::launch).walking(tiles(p, variant(p).tile_rows()))
            }
            Self::Fp8Linear(p) => {
                let choice = Choice {
                    variant: how.variant,
                    allow_unproven: false,
                };
                let plan = plan(*p, device, choice)?.by(how.conversion, device)?;
                let tiles = tiles(p, plan.tile_rows());
                Kernels::of(plan, launch).walking(tiles)
            }
            // Who describes a product of codes asks for its instructions by name.
            Self::Fp8Codes(p) => Kernels::of(fp8_mma::plan(*p, device, true)?, fp8_mma::launch)
                .walking(tiles(&p.product, fp8_mma::TILE_ROWS)),
        })
    }
}

/// The list of tiles that a product of sorted rows walks.
pub(super) fn tiles(problem: &Problem, rows: usize) -> Option<Tiles> {
    let most = crate::grouped_gemm::max_tiles(problem, rows);
    (!problem.dense).then_some(Tiles { rows, most })
}
