//! A device that was looked for.

use crate::{Capability, Device, OpenError};

/// One device, or one runtime without a device, as [`discover`](crate::discover()) saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The name that [`open`](crate::open) takes.
    pub device: Device,
    /// What it can do, or what keeps it from being used.
    pub status: Result<Capability, OpenError>,
}

/// A device that this build and this machine have.
pub(crate) struct Located {
    /// With its index.
    pub(crate) device: Device,
    pub(crate) cubecl: Option<cubecl::Device>,
    /// Where looking for the device already told.
    pub(crate) known: Option<Capability>,
}

/// `device`'s index among `count` devices, 0 where it names none.
#[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
pub(crate) fn index_among(device: Device, count: usize) -> Result<u32, OpenError> {
    let index = device.index().unwrap_or(0);
    if (index as usize) < count {
        return Ok(index);
    }
    Err(OpenError::NoSuchDevice {
        device,
        available: (0..).take(count).map(|index| device.at(index)).collect(),
    })
}
