//! The kernels of [`moebius_ops::Permute`].

use super::{TILE_WORDS, combine, dispatch, plan_rows, sorting, weights_gradient};
use crate::Lookup;
use crate::operation::{Family, How, Kernels};
use crate::prelude::*;
use moebius_ops::Permute;

impl Family for Permute {
    fn kernels(&self, how: &How, device: &Capability) -> Result<Kernels, PlanError> {
        Ok(match self {
            Self::Sort { problem, .. } => {
                let variant = how.variant(problem.row_bound(), problem.experts(), device);
                let plan = sorting::plan(*problem, variant.tile_rows(), device)?;
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
