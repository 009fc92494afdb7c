//! What this build and this machine have.

use crate::located::Found;
use crate::{Capability, Device, OpenError, choose, runtimes};

/// Every device of every runtime in this build, and one entry for each runtime that is left out
/// or has no device, with the reason.
///
/// In the order `cuda`, `rocm`, `vulkan`, `wgpu`, `cpu`, `flex`, each by index. The same GPU is
/// listed once for every runtime that reaches it. Reads adapter descriptions; only `rocm` and
/// `cpu` start their runtime, which can't be asked otherwise. Never panics.
pub fn discover() -> Vec<Found> {
    [
        Device::Cuda(None),
        Device::Rocm(None),
        Device::Vulkan(None),
        Device::Wgpu(None),
        Device::Cpu,
        Device::Flex,
    ]
    .into_iter()
    .flat_map(|runtime| match runtimes::list(runtime) {
        Ok(found) => found,
        Err(error) => vec![Found {
            device: runtime,
            status: Err(error),
        }],
    })
    .collect()
}

/// What `device` can do.
///
/// For wgpu and flex nothing is started; `cuda`, `rocm` and `cpu` start their runtime, because
/// only the started runtime knows which types and matrix shapes its compiler takes. `auto` is the
/// device [`choose`] picks.
///
/// # Errors
///
/// [`OpenError`] as from [`open`](crate::open).
pub fn probe(device: &Device) -> Result<Capability, OpenError> {
    let named = match device {
        Device::Auto => choose(&discover())?.device,
        named => *named,
    };
    runtimes::locate(named)?.capability()
}

#[cfg(test)]
#[path = "discover_tests.rs"]
mod tests;
