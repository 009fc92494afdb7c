//! Kernels of attention under score rules.

use crate::ops::call::Kernels;
use moebius_device::Capability;
use moebius_ops::attention::Problem;
use moebius_shaders::Unsupported;

pub(super) fn attention(_: Problem, _: &Capability) -> Result<Kernels, Unsupported> {
    Err(Unsupported::new("attention", "its kernels", "none yet"))
}
