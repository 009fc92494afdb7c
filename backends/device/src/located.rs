//! A device that was looked for, and why there is none.

use crate::{Capability, Device};

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

#[cfg(test)]
#[path = "located_tests.rs"]
mod tests;
