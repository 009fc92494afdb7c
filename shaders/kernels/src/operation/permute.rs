//! The kernels of [`moebius_ops::Permute`].

use super::{Family, Kernels};
use crate::Lookup;
use crate::permute::{TILE_WORDS, combine, dispatch, plan_rows, sorting, weights_gradient};
use crate::prelude::*;
use moebius_ops::Permute;

impl Family for Permute {
    /// Rows of a tile of a sort; products over the sorted rows must have tiles of as many. Without a number a tile has one row.
    type How = Option<usize>;

    fn kernels(
        &self,
        tile_rows: &Option<usize>,
        device: &Capability,
    ) -> Result<Kernels, PlanError> {
        Ok(match self {
            Self::Sort { problem, .. } => {
                let plan = sorting::plan(*problem, tile_rows.unwrap_or(1), device)?;
                let words = TILE_WORDS * plan.max_tiles();
                Kernels::of(plan, sorting::launch).with_tiles(words)
            }
            Self::Gather(problem) => Kernels::of(plan_rows(*problem, device)?, dispatch::launch),
            Self::Combine { problem, .. } => {
                Kernels::of(plan_rows(*problem, device)?, combine::launch)
            }
            Self::CombineBackward(problem) => {
                Kernels::new(plan_rows(*problem, device)?, |client, plan, b| {
                    dispatch::launch(client, plan, b.fill());
                    weights_gradient::launch(client, plan, b.fill());
                })
            }
        })
    }
}
