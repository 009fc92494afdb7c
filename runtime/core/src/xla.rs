//! XLA's devices: what `moebius-xla` opens, in this crate's terms.

use crate::Error;
use moebius_device::{Device, Found, OpenError, Platform};
use moebius_xla::pjrt;

/// Opens a device for ordinary tensors.
pub(crate) fn open(platform: Platform, index: Option<u32>) -> Result<burn::tensor::Device, Error> {
    let opened = moebius_xla::open(plugin(platform), index.unwrap_or(0) as usize);
    Ok(opened.map_err(|error| reason(Device::Xla(platform, index), error))?)
}

/// One entry for each platform: its first device where a plugin is installed and the PCI bus shows
/// hardware for it, or what is missing. Loads nothing.
pub(crate) fn discover() -> Vec<Found> {
    let environment = pjrt::Environment::from_process();
    let found = Platform::ALL.into_iter().map(|platform| {
        let device = Device::Xla(platform, None);
        let status = match pjrt::locate(plugin(platform), &environment) {
            Ok(_) if environment.has_hardware(plugin(platform)) => moebius_device::probe(&device),
            Ok(_) => Err(OpenError::NoSuchDevice {
                device,
                available: Vec::new(),
            }),
            Err(error) => Err(reason(
                device,
                moebius_xla::OpenError::Plugin(pjrt::Error::NotFound(Box::new(error))),
            )),
        };
        Found { device, status }
    });
    found.collect()
}

fn plugin(platform: Platform) -> pjrt::Platform {
    match platform {
        Platform::Cpu => pjrt::Platform::Cpu,
        Platform::Tpu => pjrt::Platform::Tpu,
        Platform::Cuda => pjrt::Platform::Cuda,
    }
}

fn reason(device: Device, error: moebius_xla::OpenError) -> OpenError {
    use moebius_xla::OpenError as Xla;
    match error {
        Xla::Plugin(pjrt::Error::NoSuchDevice { count, .. }) => OpenError::NoSuchDevice {
            device,
            available: devices(device, count),
        },
        Xla::Plugin(error @ pjrt::Error::NotFound(_)) => OpenError::NoDriver {
            device,
            library: "its PJRT plugin",
            reason: error.to_string(),
        },
        other => OpenError::Failed {
            device,
            reason: other.to_string(),
        },
    }
}

fn devices(device: Device, count: usize) -> Vec<Device> {
    match device {
        Device::Xla(platform, _) => (0..count as u32)
            .map(|i| Device::Xla(platform, Some(i)))
            .collect(),
        other => vec![other],
    }
}
