//! Opening a device: from a name to a started runtime.

use cubecl::client::Client;

use crate::{Capability, Device, OpenError, choose, discover, runtimes};

/// A started device.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Which device: never [`Device::Auto`], and with its index where the runtime has indices.
    pub device: Device,
    /// What it can do.
    pub capability: Capability,
    pub(crate) cubecl: Option<cubecl::Device>,
}

impl Opened {
    /// The device in CubeCL's terms; `None` for `flex`, which CubeCL does not run.
    pub fn cubecl(&self) -> Option<cubecl::Device> {
        self.cubecl.clone()
    }

    /// A client of the device's runtime, to launch kernels and read memory figures with; `None`
    /// for `flex`.
    pub fn client(&self) -> Option<Client> {
        // Does not start anything: `open` has.
        self.cubecl.as_ref().map(cubecl::Device::client)
    }
}

/// Starts `device`'s runtime.
///
/// `auto` takes the device [`choose`] picks and reports that device's error if it fails: no other
/// is tried behind the caller's back. Opening the same device again is cheap and shares the
/// runtime.
///
/// # Errors
///
/// [`OpenError`], always before any kernel runs; a missing driver is an error, not a panic.
pub fn open(device: &Device) -> Result<Opened, OpenError> {
    let named = match device {
        Device::Auto => choose(&discover())?.device,
        named => *named,
    };
    let located = runtimes::locate(named)?;
    if let Some(inner) = &located.cubecl {
        runtimes::start(located.device, inner)?;
    }
    let capability = located.capability()?;
    Ok(Opened {
        device: located.device,
        capability,
        cubecl: located.cubecl,
    })
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;
