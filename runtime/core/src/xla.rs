//! XLA's devices: opens devices of `moebius-xla` with the errors and types of this crate.

use crate::Error;
use moebius_device::{Device, Found, OpenError, Placement, XlaPlatform};
use moebius_pjrt::{Environment, Platform, locate};
use moebius_xla::stablehlo::{Axis, Mesh};

/// Opens a device for ordinary tensors.
pub(crate) fn open(
    platform: XlaPlatform,
    index: Option<u32>,
) -> Result<burn::tensor::Device, Error> {
    let opened = moebius_xla::open(plugin(platform), index.unwrap_or(0) as usize);
    Ok(opened.map_err(|error| reason(Device::Xla(platform, index), error))?)
}

/// Opens the devices of a placement, from this one on, as one device for ordinary tensors.
pub(crate) fn open_placed(
    platform: XlaPlatform,
    index: Option<u32>,
    placement: Placement,
) -> Result<burn::tensor::Device, Error> {
    let first = index.unwrap_or(0);
    let mesh = Mesh::new(placement.experts(), placement.data())?;
    let placed = moebius_xla::place(plugin(platform), first as usize, mesh);
    let last = first.saturating_add(placement.devices() as u32 - 1);
    let placed = placed.map_err(|error| reason(Device::Xla(platform, Some(last)), error))?;
    Ok(placed.device().clone())
}

/// The number of parts that a device divides the experts of a layer into; `None` for a device that isn't several.
pub(crate) fn places_of_experts(device: &burn::tensor::Device) -> Option<usize> {
    let mesh = moebius_xla::mesh_of(device)?;
    Some(mesh.places(Axis::Experts))
}

/// Bytes that can still be allocated on a device: of main memory for one device of the processor's plugin, which keeps its buffers there. `None` for
/// several devices, each of which has whatever isn't divided, and for other plugins, whose memory isn't asked.
pub(crate) fn memory_free(device: &burn::tensor::Device) -> Option<u64> {
    match moebius_xla::platform_of(device)? {
        Platform::Cpu => moebius_device::host_memory_free(),
        Platform::Tpu | Platform::Cuda => None,
    }
}

/// Finds a platform's first device, if a plugin is installed and the PCI bus shows its hardware, or what is missing. Loads nothing.
pub(crate) fn find(platform: XlaPlatform) -> Found {
    let environment = Environment::from_process();
    let device = Device::Xla(platform, None);
    let status = match locate(plugin(platform), &environment) {
        Ok(_) if environment.has_hardware(plugin(platform)) => moebius_device::probe(&device),
        Ok(_) => Err(OpenError::NoSuchDevice {
            device,
            available: Vec::new(),
        }),
        Err(error) => Err(reason(
            device,
            moebius_xla::OpenError::Plugin(moebius_pjrt::Error::NotFound(Box::new(error))),
        )),
    };
    Found { device, status }
}

fn plugin(platform: XlaPlatform) -> Platform {
    match platform {
        XlaPlatform::Cpu => Platform::Cpu,
        XlaPlatform::Tpu => Platform::Tpu,
        XlaPlatform::Cuda => Platform::Cuda,
    }
}

fn reason(device: Device, error: moebius_xla::OpenError) -> OpenError {
    use moebius_xla::OpenError as Xla;
    match error {
        Xla::Plugin(moebius_pjrt::Error::NoSuchDevice { count, .. }) => OpenError::NoSuchDevice {
            device,
            available: devices(device, count),
        },
        Xla::Plugin(error @ moebius_pjrt::Error::NotFound(_)) => OpenError::NoDriver {
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
