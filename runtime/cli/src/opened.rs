//! A device that a command works on.

use moebius_device::Device;

use crate::error::CliError;

/// An open device and why it is this one.
pub(crate) struct Opened {
    /// Name of the device, `auto` resolved.
    pub(crate) name: String,
    /// The device itself.
    pub(crate) handle: burn::tensor::Device,
}

impl Opened {
    /// Opens `device` whatever is known about it.
    pub(crate) fn named(device: Device) -> Result<Self, CliError> {
        let handle = moebius::open(&device)?;
        Ok(Self {
            name: device.to_string(),
            handle,
        })
    }
}
