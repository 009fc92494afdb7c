//! placeholder
use super::*;
use crate::error::Unsupported;
use moebius_device::Capability;
pub(super) const ROWS: usize = 64;
pub(super) fn supported(_p: &Problem, d: &Capability) -> Result<(), Unsupported> {
    Err(Unsupported::new("grouped_gemm", "x", &d.name))
}
pub(super) fn cubes(_plan: &Plan) -> [usize; 2] {
    [0, 0]
}
pub(super) fn launch(_client: &Client, _plan: &Plan, _slab: &Slab, _operands: &Operands) {}
