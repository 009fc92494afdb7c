//! CubeCL's names for wgpu's adapters.

use std::collections::BTreeMap;

use cubecl::device::WgpuDeviceKind;
use wgpu::DeviceType;

use crate::DeviceKind;

/// Pairs adapters with CubeCL's names for them. CubeCL numbers each kind by itself, in the driver's order.
pub(crate) fn by_name(
    adapters: Vec<wgpu::Adapter>,
) -> Vec<(Option<WgpuDeviceKind>, wgpu::Adapter)> {
    let mut counts = BTreeMap::<DeviceKind, usize>::new();
    let name = |adapter: wgpu::Adapter| {
        let kind = kind(adapter.get_info().device_type);
        let count = counts.entry(kind).or_default();
        *count += 1;
        (named(kind, *count - 1), adapter)
    };
    adapters.into_iter().map(name).collect()
}

pub(crate) fn named(kind: DeviceKind, index: usize) -> Option<WgpuDeviceKind> {
    Some(match kind {
        DeviceKind::DiscreteGpu => WgpuDeviceKind::DiscreteGpu(index),
        DeviceKind::IntegratedGpu => WgpuDeviceKind::IntegratedGpu(index),
        DeviceKind::VirtualGpu => WgpuDeviceKind::VirtualGpu(index),
        DeviceKind::Unknown => WgpuDeviceKind::Other(index),
        DeviceKind::Cpu if index == 0 => WgpuDeviceKind::Cpu,
        DeviceKind::Cpu => return None,
    })
}

pub(crate) fn kind(device_type: DeviceType) -> DeviceKind {
    match device_type {
        DeviceType::DiscreteGpu => DeviceKind::DiscreteGpu,
        DeviceType::IntegratedGpu => DeviceKind::IntegratedGpu,
        DeviceType::VirtualGpu => DeviceKind::VirtualGpu,
        DeviceType::Cpu => DeviceKind::Cpu,
        DeviceType::Other => DeviceKind::Unknown,
    }
}
