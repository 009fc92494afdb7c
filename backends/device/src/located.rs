//! Devices as they were found, and errors of finding and opening them.

use crate::{Capability, Device};

/// One device, or one runtime without a device, as [`discover`](crate::discover()) saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The name that [`open`](crate::open) takes.
    pub device: Device,
    /// What the device can do, or why it can't be used.
    pub status: Result<Capability, OpenError>,
}

/// A device that this build and this machine have.
pub(crate) struct Located {
    /// The device's name, with its index.
    pub(crate) device: Device,
    pub(crate) cubecl: Option<cubecl::Device>,
    /// What the device can do, if the search already told.
    pub(crate) known: Option<Capability>,
}

/// `device`'s index among `count` devices; 0 if the name has no index.
#[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
#[cfg(not(target_family = "wasm"))]
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

/// The reason why a device can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// This build does not include the runtime.
    #[error("`{device}` is not part of this build: build with the cargo feature `{feature}`")]
    NotBuilt {
        /// The device that was asked for.
        device: Device,
        /// The cargo feature that adds the runtime.
        feature: &'static str,
    },
    /// The runtime is built in, but the machine lacks its driver or hardware.
    #[error("`{device}` has no driver here: {reason}; install {library} or choose another device")]
    NoDriver {
        /// The device that was asked for.
        device: Device,
        /// What provides the driver.
        library: &'static str,
        /// What the search found instead.
        reason: String,
    },
    /// The runtime works, but has no device with this index.
    #[error("no device `{device}`: expected {}, got `{device}`", listing(*.device, .available))]
    NoSuchDevice {
        /// The device that was asked for.
        device: Device,
        /// The runtime's devices.
        available: Vec<Device>,
    },
    /// The driver works, but the device lacks what our kernels need.
    #[error("`{device}` can't be used: {reason}; update its driver or choose another device")]
    Unfit {
        /// The device that was asked for.
        device: Device,
        /// What the device lacks.
        reason: String,
    },
    /// The driver is present but fails.
    #[error("`{device}` failed to start: {reason}; update its driver or choose another device")]
    Failed {
        /// The device that was asked for.
        device: Device,
        /// The driver's message.
        reason: String,
    },
    /// The device runs but computes wrong results. This crate doesn't detect that; callers that do report it with this
    /// error.
    #[error(
        "`{device}` computes wrong results: {reason}; update its driver or choose another device"
    )]
    WrongResults {
        /// The device that was asked for.
        device: Device,
        /// What is wrong with the results.
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

#[cfg(test)]
#[path = "located_tests.rs"]
mod tests;
