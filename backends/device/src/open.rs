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
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "flex")]
    fn flex_opens_without_cubecl() {
        let opened = open(&Device::Flex).unwrap();
        assert_eq!(opened.device, Device::Flex);
        assert_eq!(opened.cubecl(), None);
        assert!(opened.client().is_none());
    }

    #[test]
    #[cfg(feature = "cpu")]
    fn cpu_opens_and_gives_a_client() {
        let opened = open(&Device::Cpu).unwrap();
        assert_eq!(opened.client().unwrap().name(), "cpu");
        assert_eq!(Ok(opened.capability), crate::probe(&Device::Cpu));
    }

    #[test]
    #[cfg(any(feature = "cpu", feature = "flex"))]
    fn auto_opens_something_definite() {
        let opened = open(&Device::Auto).unwrap();
        assert_ne!(opened.device, Device::Auto);
        assert_eq!(
            crate::choose(&crate::discover()).unwrap().device,
            opened.device
        );
    }

    #[test]
    fn an_index_past_the_end_is_an_error() {
        for name in ["wgpu:4000", "vulkan:4000", "cuda:4000", "rocm:4000"] {
            let device: Device = name.parse().unwrap();
            let error = open(&device).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
