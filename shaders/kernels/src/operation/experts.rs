//! The kernels of [`moebius_ops::Experts`].

use super::grouped_gemm::tiles;
use super::{Family, Kernels};
use crate::Lookup;
use crate::experts::{launch, plan, plan_training, training};
use crate::grouped_gemm::{Choice, Variant};
use crate::prelude::*;
use moebius_ops::Experts;

impl Family for Experts {
    /// How both products are computed, which decides the tiles of the sort.
    type How = Option<Variant>;

    fn kernels(
        &self,
        variant: &Option<Variant>,
        device: &Capability,
    ) -> Result<Kernels, PlanError> {
        let (Self::Forward { problem, .. } | Self::Backward { problem, .. }) = *self;
        let (rows, experts) = (problem.row_bound, problem.routing.experts());
        let variant = Variant::or_portable(*variant, rows, experts, device);
        let forward = || plan(problem, device, Choice::of(variant));
        let backward = || plan_training(problem, variant, device);
        let tiles = tiles(&problem.down()?, variant.tile_rows());
        let kernels = match self {
            Self::Forward { keep: false, .. } => {
                Kernels::staged(forward()?, |client, plan, b, done| {
                    launch(client, plan, b.fill(), done);
                })
            }
            Self::Forward { .. } => {
                let plans = (forward()?, backward()?);
                Kernels::staged(plans, |client, (plan, training), b, done| {
                    let pre = b.get("pre");
                    training::launch_keeping(client, plan, training, b.fill(), pre, done);
                })
            }
            Self::Backward { .. } => Kernels::new(backward()?, |client, plan, b| {
                training::launch_backward(client, plan, b.fill(), b.find("pre"), b.fill());
            }),
        };
        Ok(kernels.walking(tiles))
    }
}
