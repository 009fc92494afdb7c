//! The kernels of [`moebius_ops::Exact`].

#[cfg(feature = "emit")]
mod entries;

#[cfg(feature = "emit")]
pub(crate) use entries::entries;

use super::{Family, Kernels};
use crate::Lookup;
use crate::exact::{self, plan};
use crate::prelude::*;
use moebius_ops::Exact;

impl Family for Exact {
    type How = ();

    fn kernels(&self, (): &(), device: &Capability) -> Result<Kernels, PlanError> {
        if let Self::Attend(attend) = self {
            let plan = exact::plan_attend(*attend, device)?;
            return Ok(Kernels::of(plan, exact::launch_attend));
        }
        let grid = plan(self, device)?;
        Ok(match *self {
            Self::Map { function, .. } => Kernels::new(grid, move |client, grid, b| {
                exact::launch_map(client, grid, function, b.fill());
            }),
            Self::Product(p) => Kernels::new(grid, move |client, grid, b| {
                exact::launch_product(client, grid, &p, b.fill());
            }),
            Self::Activate(p) => Kernels::new(grid, move |client, grid, b| {
                exact::launch_activation(client, grid, &p, b.fill());
            }),
            Self::Norm(p) => Kernels::new(grid, move |client, grid, b| {
                exact::launch_norm(client, grid, &p, b.fill());
            }),
            Self::Route { problem, .. } => Kernels::new(grid, move |client, grid, b| {
                exact::launch_route(client, grid, &problem, b.fill());
            }),
            Self::Combine(p) => Kernels::new(grid, move |client, grid, b| {
                exact::launch_combine(client, grid, &p, b.fill());
            }),
            Self::Rotate(p) => Kernels::new(grid, move |client, grid, b| {
                exact::launch_rotate(client, grid, &p, b.fill());
            }),
            Self::Attend(_) => unreachable!("an attention has a plan of its own"),
        })
    }
}
