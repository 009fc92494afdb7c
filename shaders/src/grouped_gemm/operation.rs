//! The kernels of [`moebius_ops::GroupedGemm`].

use super::{Choice, gradient, launch, plan};
use crate::fp8_mma;
use crate::operation::{Family, How, Kernels, Tiles};
use crate::prelude::*;
use moebius_ops::GroupedGemm;
use moebius_ops::grouped_gemm::Problem;

impl Family for GroupedGemm {
    fn kernels(&self, how: &How, device: &Capability) -> Result<Kernels, PlanError> {
        let variant = |p: &Problem| how.variant(p.row_bound, p.experts, device);
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
pub(crate) fn tiles(problem: &Problem, rows: usize) -> Option<Tiles> {
    let most = super::max_tiles(problem, rows);
    (!problem.dense).then_some(Tiles { rows, most })
}
