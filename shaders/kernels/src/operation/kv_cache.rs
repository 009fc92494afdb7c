//! The kernels of [`moebius_ops::KvCache`].

use super::{Family, Kernels};
use crate::kv_cache::{launch, launch_append, plan, plan_append};
use crate::prelude::*;
use moebius_ops::KvCache;

impl Family for KvCache {
    type How = ();

    fn kernels(&self, (): &(), device: &Capability) -> Result<Kernels, PlanError> {
        Ok(match self {
            Self::Append(append) => Kernels::of(plan_append(*append, device)?, launch_append),
            Self::Attend(attend) => Kernels::of(plan(*attend, device)?, launch),
        })
    }
}
