//! Devices that XLA compiles for, as far as planning is concerned.

use crate::located::Located;
use crate::{Capability, Device, DeviceKind, Limits, Platform, Runtime, Vendor};

/// The device, without looking for its plugin: that is loaded when the device is opened for tensors.
/// XLA plans its own kernels, so the limits are those of no launch at all.
pub(crate) fn locate(platform: Platform, index: Option<u32>) -> Located {
    let (kind, vendor, name) = match platform {
        Platform::Cpu => (DeviceKind::Cpu, Vendor::Unknown, "processor"),
        Platform::Tpu => (DeviceKind::Unknown, Vendor::Unknown, "TPU"),
        Platform::Cuda => (DeviceKind::DiscreteGpu, Vendor::Nvidia, "NVIDIA GPU"),
    };
    let capability = Capability {
        name: format!("{name} through XLA"),
        vendor,
        architecture: None,
        runtime: Runtime::Xla,
        kind,
        limits: Limits {
            max_bindings: u32::MAX,
            max_units_per_cube: 1,
            max_cube_dim: [1; 3],
            max_cube_count: [u32::MAX; 3],
            max_shared_memory: 0,
            max_binding_bytes: u64::MAX,
            max_buffer_bytes: u64::MAX,
            binding_alignment: 64,
        },
        load_width_bits: 0,
        vector_registers: None,
        cpu_cores: None,
        subgroup: None,
        f16: true,
        bf16: true,
        mma: Vec::new(),
        fp8_conversion: false,
        fp8_mma: false,
        driver: None,
        memory: None,
    };
    Located {
        device: Device::Xla(platform, Some(index.unwrap_or(0))),
        cubecl: None,
        known: Some(capability),
    }
}
