//! Opening a device: from a name to a started runtime.

use cubecl::client::Client;

use crate::{Capability, Device, choose, discover, guard, probe};

/// Why a device can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// This build leaves the runtime out.
    #[error("`{device}` is not part of this build: build with the cargo feature `{feature}`")]
    NotBuilt {
        /// What was asked for.
        device: Device,
        /// The cargo feature that adds it.
        feature: &'static str,
    },
    /// The runtime is built in, and the machine has no driver for it or no hardware behind it.
    #[error("`{device}` has no driver here: {reason}; install {library} or choose another device")]
    NoDriver {
        /// What was asked for.
        device: Device,
        /// What provides the driver.
        library: &'static str,
        /// What was found instead.
        reason: String,
    },
    /// The runtime works, and has no device of this index.
    #[error("no device `{device}`: expected {}, got `{device}`", listing(*.device, .available))]
    NoSuchDevice {
        /// What was asked for.
        device: Device,
        /// What the runtime does have.
        available: Vec<Device>,
    },
    /// The driver is there and refuses.
    #[error("`{device}` failed to start: {reason}; update its driver or choose another device")]
    Failed {
        /// What was asked for.
        device: Device,
        /// The driver's words.
        reason: String,
    },
    /// It runs, and what it computes isn't what it should be. Nothing here finds that out; who did says so with it.
    #[error(
        "`{device}` computes wrong results: {reason}; update its driver or choose another device"
    )]
    WrongResults {
        /// What was asked for.
        device: Device,
        /// What is wrong.
        reason: String,
    },
}

fn listing(device: Device, available: &[Device]) -> String {
    match available {
        [] if device != Device::Auto => "hardware for it in this machine".into(),
        [] => "any device, and this build finds none (build with the cargo feature `flex`)".into(),
        [only] => format!("`{only}`"),
        all => {
            let names: Vec<_> = all.iter().map(|device| format!("`{device}`")).collect();
            format!("one of {}", names.join(", "))
        }
    }
}

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
    let located = probe::locate(named)?;
    if let Some(inner) = &located.cubecl {
        start(located.device, inner)?;
    }
    let capability = located.capability()?;
    Ok(Opened {
        device: located.device,
        capability,
        cubecl: located.cubecl,
    })
}

/// The runtime's client, started if need be; the runtime has to be part of the build.
pub(crate) fn start(device: Device, inner: &cubecl::Device) -> Result<Client, OpenError> {
    guard::quietly(|| inner.client()).map_err(|reason| OpenError::Failed { device, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do() {
        let device = Device::Wgpu(Some(7));
        let cases = [
            (
                OpenError::NotBuilt {
                    device: Device::Cuda(None),
                    feature: "cuda",
                },
                "`cuda` is not part of this build: build with the cargo feature `cuda`",
            ),
            (
                OpenError::NoSuchDevice {
                    device,
                    available: vec![Device::Wgpu(Some(0)), Device::Wgpu(Some(1))],
                },
                "no device `wgpu:7`: expected one of `wgpu:0`, `wgpu:1`, got `wgpu:7`",
            ),
            (
                OpenError::NoSuchDevice {
                    device: Device::Auto,
                    available: vec![],
                },
                "no device `auto`: expected any device, and this build finds none \
                 (build with the cargo feature `flex`), got `auto`",
            ),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }

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
