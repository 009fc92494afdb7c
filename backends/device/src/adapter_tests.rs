use super::*;
use crate::DeviceKind;
use crate::named::named;

#[test]
fn threads_can_list_at_the_same_time() {
    let lists: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| list(Device::Wgpu(None)).map(|found| found.len())))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(lists.iter().all(|count| *count == lists[0]), "{lists:?}");
}

/// A started device must report the same figures as `capability`, which imitates CubeCL without starting it.
#[test]
fn a_started_adapter_reports_what_was_read_before() {
    for Found { device, status } in crate::discover() {
        let (Device::Wgpu(_) | Device::Vulkan(_), Ok(read)) = (device, status) else {
            continue;
        };
        let opened = crate::open(&device).unwrap();
        let client = opened.client().unwrap();
        assert_eq!(
            client.name() == "wgpu<spirv>",
            read.runtime == Runtime::Vulkan
        );
        let mut started = Capability::from_properties(read.runtime, client.properties());
        started.kind = read.kind;
        started.vendor = read.vendor;
        started.fp8_conversion = read.fp8_conversion;
        started.driver = read.driver.clone();
        started.memory = read.memory;
        started.loop_rounds = read.loop_rounds;
        assert_eq!(started, read, "{device}");
        // What was told of the adapter is told of the device, too, whoever has started it.
        let told = crate::memory_free(&opened.cubecl().unwrap());
        let free = read.memory.and_then(|memory| memory.free);
        assert_eq!(told.is_some(), free.is_some(), "{device}");
    }
}

/// What is free of a software adapter's made-up heap is asked for here alone, since no GPU needs to be there.
#[test]
#[cfg(target_os = "linux")]
fn drivers_of_vulkan_tell_what_is_free_or_lack_the_extension() {
    let found = quietly(|| {
        let told = |adapter: wgpu::Adapter| (adapter.get_info(), budget::of(&adapter));
        let adapters = enumerate(Backend::Vulkan).into_iter();
        adapters.map(told).collect::<Vec<_>>()
    });
    let mut machine = sysinfo::System::new();
    machine.refresh_memory();
    for (info, told) in found.unwrap() {
        let memory = told.unwrap();
        let software = info.device_type == DeviceType::Cpu;
        match memory.free {
            Some(free) if software => assert!(free < machine.total_memory(), "{memory:?}"),
            Some(free) => assert!((1..=memory.total).contains(&free), "{memory:?}"),
            None => println!("{} lacks VK_EXT_memory_budget", info.name),
        }
    }
}

/// wgpu gives an adapter another identity each time that it lists them.
#[test]
fn an_adapter_is_looked_for_once() {
    let found = quietly(|| {
        let listed = by_name(settle(APIS)).into_iter();
        let names = listed.filter_map(|(name, _)| name).collect::<Vec<_>>();
        let twice = |name: &WgpuDeviceKind| [kept(name), kept(name)];
        names.iter().map(twice).collect::<Vec<_>>()
    });
    for [first, second] in found.unwrap() {
        assert!(first.is_some());
        assert_eq!(first, second);
    }
    let none = quietly(|| kept(&WgpuDeviceKind::DiscreteGpu(99)));
    assert_eq!(none, Ok(None));
}

#[test]
fn no_index_is_the_first_and_shares_its_client() {
    let Ok(best) = crate::open(&Device::Wgpu(None)) else {
        return;
    };
    assert_eq!(best.device, Device::Wgpu(Some(0)));
    let first = crate::open(&Device::Wgpu(Some(0))).unwrap();
    assert_eq!(best.cubecl(), first.cubecl());
}

#[test]
fn software_adapters_are_named_and_come_last() {
    assert_eq!(named(DeviceKind::Cpu, 0), Some(WgpuDeviceKind::Cpu));
    assert_eq!(named(DeviceKind::Cpu, 1), None);
    let types = [
        DeviceType::Other,
        DeviceType::IntegratedGpu,
        DeviceType::DiscreteGpu,
        DeviceType::VirtualGpu,
    ];
    assert!(types.iter().all(|of| kind(*of) < kind(DeviceType::Cpu)));
}
