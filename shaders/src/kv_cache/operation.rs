//! The kernels of [`moebius_ops::KvCache`].

use super::{launch, launch_append, plan, plan_append};
use crate::operation::{Family, How, Kernels};
use crate::prelude::*;
use moebius_ops::KvCache;

impl Family for KvCache {
    fn kernels(&self, _: &How, device: &Capability) -> Result<Kernels, PlanError> {
        Ok(match self {
            Self::Append(append) => Kernels::of(plan_append(*append, device)?, launch_append),
            Self::Attend(attend) => Kernels::of(plan(*attend, device)?, launch),
        })
    }
}
