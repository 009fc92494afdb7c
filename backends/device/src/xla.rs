//! Devices that XLA compiles for, as far as planning is concerned.

use crate::located::Located;
use crate::{Capability, Device, DeviceKind, Limits, Runtime, Vendor, XlaPlatform};

/// The device, without looking for its plugin: that is loaded when the device is opened for tensors.
/// XLA plans its own kernels, so the limits are those of no launch at all.
pub(crate) fn locate(platform: XlaPlatform, index: Option<u32>) -> Located {
    let (kind, vendor, name) = match platform {
        XlaPlatform::Cpu => (DeviceKind::Cpu, Vendor::Unknown, "processor"),
        XlaPlatform::Tpu => (DeviceKind::Unknown, Vendor::Unknown, "TPU"),
        XlaPlatform::Cuda => (DeviceKind::DiscreteGpu, Vendor::Nvidia, "NVIDIA GPU"),
    };
    let capability = Capability {
        name: format!("{name} through XLA"),
        vendor,
        runtime: Runtime::Xla,
        kind,
        limits: Limits::NO_LAUNCH,
        load_width_bits: 0,
        f16: true,
        bf16: true,
        ..Capability::webgpu_default()
    };
    Located {
        device: Device::Xla(platform, Some(index.unwrap_or(0))),
        cubecl: None,
        known: Some(capability),
    }
}
