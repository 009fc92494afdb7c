//! What drivers of Vulkan tell of a GPU's memory.
#![allow(unsafe_code, reason = "wgpu has no such query, and Vulkan's is a call")]

use ash::{ext, vk};

use crate::MemoryFigures;

/// The memory of an adapter of Vulkan that is its own: its size, and the bytes that this process can still allocate of it, where the driver has
/// `VK_EXT_memory_budget`. `None` for adapters of other graphics APIs, and of Vulkan 1.0, which has no call for it.
pub(crate) fn of(adapter: &wgpu::Adapter) -> Option<MemoryFigures> {
    // SAFETY: the adapter's handles are read and not kept.
    let hal = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let (instance, driver) = (hal.shared_instance(), hal.physical_device_capabilities());
    let version = driver.properties().api_version;
    if version.min(instance.instance_api_version()) < vk::API_VERSION_1_1 {
        return None;
    }
    let tells = driver.supports_extension(ext::memory_budget::NAME);
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut memory = vk::PhysicalDeviceMemoryProperties2::default();
    if tells {
        memory = memory.push_next(&mut budget);
    }
    let (raw, device) = (instance.raw_instance(), hal.raw_physical_device());
    // SAFETY: the handle is one of this living instance, and the driver knows the structure that is chained, which outlives the call.
    unsafe { raw.get_physical_device_memory_properties2(device, &mut memory) };
    let properties = memory.memory_properties;
    let budget = tells.then_some(&budget);
    figures(properties.memory_heaps_as_slice(), budget)
}

/// Sums up the heaps on the device; `None` without any.
fn figures(
    heaps: &[vk::MemoryHeap],
    budget: Option<&vk::PhysicalDeviceMemoryBudgetPropertiesEXT<'_>>,
) -> Option<MemoryFigures> {
    let local = || {
        let heaps = heaps.iter().enumerate();
        heaps.filter(|(_, heap)| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL))
    };
    let sum = |bytes: &dyn Fn((usize, &vk::MemoryHeap)) -> u64| {
        local().map(bytes).fold(0, u64::saturating_add)
    };
    let total = sum(&|(_, heap)| heap.size);
    let free = budget.map(|told| {
        let both = |at: usize| told.heap_budget.get(at).zip(told.heap_usage.get(at));
        sum(&|(at, _)| both(at).map_or(0, |(budget, usage)| budget.saturating_sub(*usage)))
    });
    (total > 0).then_some(MemoryFigures { total, free })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heaps_of_the_host_count_nothing() {
        let heap = |size, flags| vk::MemoryHeap { size, flags };
        let (own, host) = (
            vk::MemoryHeapFlags::DEVICE_LOCAL,
            vk::MemoryHeapFlags::empty(),
        );
        let heaps = [heap(100, own), heap(1000, host), heap(7, own)];
        let mut told = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        told.heap_budget[..3].copy_from_slice(&[90, 900, 5]);
        told.heap_usage[..3].copy_from_slice(&[40, 100, 6]);
        let found = |free| Some(MemoryFigures { total: 107, free });
        // A process may have more than its budget.
        assert_eq!(figures(&heaps, Some(&told)), found(Some(50)));
        assert_eq!(figures(&heaps, None), found(None));
        assert_eq!(figures(&heaps[1..2], Some(&told)), None);
    }
}
