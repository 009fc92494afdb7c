//! wgpu adapters: those that CubeCL can use, and what each can do.

use std::sync::{Mutex, PoisonError};

use cubecl::WgpuCompilationOptions;
use cubecl::device::{WgpuDevice, WgpuDeviceKind};
use cubecl::features::{Plane, TypeUsage};
use cubecl::ir::{
    DeviceIdentity, DeviceProperties, ElemType, FloatKind, HardwareProperties,
    MemoryDeviceProperties, PhysicalDevice,
};
use cubecl::profile::TimingMethod;
use wgpu::{Backend, DeviceType};

use crate::budget;
use crate::guard::quietly;
use crate::located::{Found, Located, index_among};
use crate::memory::{host_memory, host_memory_free};
use crate::named::{by_name, kind};
use crate::properties::vendor_of_card;
#[cfg(feature = "vulkan")]
use crate::vulkan::{self, Language};
use crate::{Capability, Device, OpenError, Runtime, Vendor};

/// One adapter, with CubeCL's name for it.
struct Listed {
    /// `None` for a software adapter after the first, which CubeCL can't name.
    kind: Option<WgpuDeviceKind>,
    capability: Capability,
    /// Whether CubeCL, left to itself, compiles to SPIR-V for the adapter.
    spirv: bool,
    /// The reason why the adapter can't be used, if there is one.
    lacks: Option<String>,
}

impl Listed {
    /// CubeCL's name for the adapter, or why the adapter can't be used.
    fn usable(&self, device: Device) -> Result<WgpuDeviceKind, OpenError> {
        let name = &self.capability.name;
        let reason = match (&self.kind, &self.lacks) {
            (Some(kind), None) => return Ok(kind.clone()),
            (None, _) => {
                format!("`{name}` is not the first software adapter, the only one CubeCL reaches")
            }
            (_, Some(lacks)) => format!("`{name}`: {lacks}"),
        };
        Err(OpenError::Unfit { device, reason })
    }
}

/// Lists the devices of `runtime`, which is `wgpu` or `vulkan`.
pub(crate) fn list(runtime: Device) -> Result<Vec<Found>, OpenError> {
    let found = (0..).zip(adapters(runtime)?).map(|(index, listed)| {
        let device = runtime.at(index);
        let status = listed.usable(device).map(|_| listed.capability);
        Found { device, status }
    });
    Ok(found.collect())
}

pub(crate) fn locate(device: Device) -> Result<Located, OpenError> {
    let mut adapters = adapters(device)?;
    let index = index_among(device, adapters.len())?;
    let listed = adapters.swap_remove(index as usize);
    let resolved = device.at(index);
    let kind = listed.usable(resolved)?;
    // Always name the kind: CubeCL treats its default device as different from the same adapter named by kind (two
    // clients, no sharing), and the default follows an environment variable.
    let inner = match device {
        Device::Vulkan(_) => in_spirv(&kind),
        _ if listed.spirv => in_wgsl(&kind),
        _ => Ok(WgpuDevice::new(kind)),
    };
    let inner = inner.map_err(|reason| OpenError::Failed {
        device: resolved,
        reason,
    })?;
    Ok(Located {
        device: resolved,
        cubecl: Some(cubecl::Device::Wgpu(inner)),
        known: Some(listed.capability),
    })
}

#[cfg(feature = "vulkan")]
fn in_wgsl(kind: &WgpuDeviceKind) -> Result<WgpuDevice, String> {
    quietly(|| vulkan::device(Language::Wgsl, kind)).and_then(|device| device)
}

#[cfg(feature = "vulkan")]
fn in_spirv(kind: &WgpuDeviceKind) -> Result<WgpuDevice, String> {
    quietly(|| vulkan::device(Language::SpirV, kind)).and_then(|device| device)
}

/// wgpu's handle of a `wgpu` device that this crate started instead of CubeCL; a test destroys the device through it.
#[cfg(feature = "vulkan")]
pub fn wgpu_handle(kind: &WgpuDeviceKind) -> Option<wgpu::Device> {
    vulkan::handle(kind)
}

/// Returns `None`: without the feature `vulkan` CubeCL starts all devices itself.
#[cfg(not(feature = "vulkan"))]
pub fn wgpu_handle(_: &WgpuDeviceKind) -> Option<wgpu::Device> {
    None
}

#[cfg(not(feature = "vulkan"))]
fn in_wgsl(kind: &WgpuDeviceKind) -> Result<WgpuDevice, String> {
    Ok(WgpuDevice::new(kind.clone()))
}

#[cfg(not(feature = "vulkan"))]
fn in_spirv(_: &WgpuDeviceKind) -> Result<WgpuDevice, String> {
    Err("this build lacks the feature `vulkan`".into())
}

/// The graphics APIs of `wgpu`, in the order in which CubeCL looks for an adapter.
const APIS: &[Backend] = if cfg!(target_os = "macos") {
    &[Backend::Metal]
} else {
    &[Backend::Vulkan, Backend::Dx12, Backend::Gl]
};

/// Bytes that this process can still allocate on the device with CubeCL's name `device`: of main memory on a software adapter, else as the
/// adapter's driver tells now; `None` where it doesn't ([`budget::of`]).
pub(crate) fn free(device: &WgpuDeviceKind) -> Option<u64> {
    let kind = adapter_of(device);
    if kind == WgpuDeviceKind::Cpu {
        return host_memory_free();
    }
    let found = quietly(|| budget::of(&kept(&kind)?)?.free);
    found.ok().flatten()
}

/// The adapter with CubeCL's name `kind`, which the first call looks for among all; `None` if there was none then. Under [`quietly`] only.
fn kept(kind: &WgpuDeviceKind) -> Option<wgpu::Adapter> {
    static KEPT: Mutex<Vec<(WgpuDeviceKind, Option<wgpu::Adapter>)>> = Mutex::new(Vec::new());
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, adapter)) = all.iter().find(|(known, _)| known == kind) {
        return adapter.clone();
    }
    let mut adapters = by_name(settle(APIS)).into_iter();
    let found = adapters.find(|(name, _)| name.as_ref() == Some(kind));
    let adapter = found.map(|(_, adapter)| adapter);
    all.push((kind.clone(), adapter.clone()));
    adapter
}

/// CubeCL's name for the adapter of a device, which is another one where this crate started the device.
#[cfg(feature = "vulkan")]
fn adapter_of(device: &WgpuDeviceKind) -> WgpuDeviceKind {
    vulkan::adapter_of(device).unwrap_or_else(|| device.clone())
}

/// CubeCL's name for the adapter of a device: the device's own, since CubeCL starts all devices.
#[cfg(not(feature = "vulkan"))]
fn adapter_of(device: &WgpuDeviceKind) -> WgpuDeviceKind {
    device.clone()
}

/// The adapters of `device`'s graphics API, best kind first: at least one, or an error with the reason.
fn adapters(device: Device) -> Result<Vec<Listed>, OpenError> {
    let (apis, library): (&[Backend], _) = match device {
        Device::Vulkan(_) => (&[Backend::Vulkan], "a Vulkan driver"),
        _ if cfg!(target_os = "macos") => (APIS, "a Metal driver"),
        _ => (
            APIS,
            "a Vulkan driver (mesa-vulkan-drivers has a software one)",
        ),
    };
    // `quietly` also lets only one thread in at a time: wgpu's OpenGL contexts panic when two threads use, or merely
    // drop, them.
    let found =
        quietly(|| survey(device, apis)).map_err(|reason| OpenError::Failed { device, reason })?;
    if found.is_empty() {
        return Err(OpenError::NoDriver {
            device,
            library,
            reason: format!("no adapter on {}", names(apis)),
        });
    }
    Ok(found)
}

fn survey(device: Device, apis: &[Backend]) -> Vec<Listed> {
    let wants_spirv = matches!(device, Device::Vulkan(_));
    let listed = by_name(settle(apis)).into_iter().map(|(kind, adapter)| {
        let spirv = takes_spirv(&adapter);
        Listed {
            kind,
            capability: capability(&adapter, wants_spirv && spirv),
            spirv,
            lacks: if wants_spirv {
                lacks_for_spirv(&adapter, spirv)
            } else {
                None
            },
        }
    });
    let mut listed: Vec<_> = listed.collect();
    listed.sort_by_key(|listed| listed.capability.kind);
    listed
}

fn names(apis: &[Backend]) -> String {
    let names: Vec<_> = apis.iter().map(|api| format!("{api:?}")).collect();
    names.join(", ")
}

/// The adapters of the graphics API that CubeCL would choose: the first of `apis` with a better adapter than a software
/// one, or else the first with any adapter.
///
/// CubeCL keeps its choice private, and an index among adapters of a kind is valid for one API only.
fn settle(apis: &[Backend]) -> Vec<wgpu::Adapter> {
    let mut software = Vec::new();
    for &api in apis {
        let adapters = enumerate(api);
        let is_gpu = |adapter: &wgpu::Adapter| adapter.get_info().device_type != DeviceType::Cpu;
        if adapters.iter().any(is_gpu) {
            return adapters;
        }
        if software.is_empty() {
            software = adapters;
        }
    }
    software
}

/// One instance per graphics API for the life of the process: Vulkan loaders crash when instances
/// come and go on several threads.
static INSTANCES: Mutex<Vec<(Backend, wgpu::Instance)>> = Mutex::new(Vec::new());

fn enumerate(api: Backend) -> Vec<wgpu::Adapter> {
    if !wgpu::Instance::enabled_backend_features().contains(api.into()) {
        return Vec::new();
    }
    let mut instances = INSTANCES.lock().unwrap_or_else(PoisonError::into_inner);
    let instance = match instances.iter().find(|(known, _)| *known == api) {
        Some((_, instance)) => instance.clone(),
        None => {
            let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
                backends: api.into(),
                ..wgpu::InstanceDescriptor::new_without_display_handle()
            });
            instances.push((api, instance.clone()));
            instance
        }
    };
    cubecl::future::block_on(instance.enumerate_adapters(api.into()))
}

/// What CubeCL will report for a device on `adapter`, read without starting one; `spirv` says whether kernels are in
/// SPIR-V or in WGSL. A software adapter's loops are counted once, on a device that is dropped again.
fn capability(adapter: &wgpu::Adapter, spirv: bool) -> Capability {
    let info = adapter.get_info();
    let mut properties = properties(adapter, &info);
    let mut options = WgpuCompilationOptions::default();
    if spirv {
        register_spirv(adapter, &mut properties, &mut options);
    } else if adapter.features().contains(wgpu::Features::SHADER_F16) {
        properties.register_type_usage(ElemType::Float(FloatKind::F16), TypeUsage::all());
    }
    let runtime = if spirv {
        Runtime::Vulkan
    } else {
        Runtime::Wgpu
    };
    let mut capability = Capability::from_properties(runtime, &properties);
    capability.kind = kind(info.device_type);
    capability.vendor = match info.device_type {
        DeviceType::Cpu => Vendor::Software,
        // Metal reports no vendor; Apple is the only one.
        _ if info.vendor == 0 && info.backend == Backend::Metal => Vendor::Apple,
        _ => vendor_of_card(info.vendor.into()),
    };
    capability.driver = driver(&info);
    capability.fp8_conversion = options.vulkan.supports_float8;
    if capability.is_cpu() {
        // A software adapter uses main memory; the driver's figure for its heap is made up.
        capability.memory = host_memory();
        capability.loop_rounds = crate::rounds::of(adapter, &capability.name);
    } else {
        capability.memory = budget::of(adapter).or(capability.memory);
    }
    capability
}

/// The driver's name and version as the adapter reports them; for Metal, which reports none, the operating system.
fn driver(info: &wgpu::AdapterInfo) -> Option<String> {
    let words = [info.driver.trim(), info.driver_info.trim()];
    let told = words.join(" ").trim().to_owned();
    if !told.is_empty() {
        return Some(told);
    }
    let system = "/System/Library/CoreServices/SystemVersion.plist";
    let text = std::fs::read_to_string(system).ok()?;
    let (_, rest) = text.split_once("<key>ProductBuildVersion</key>")?;
    let (_, rest) = rest.split_once("<string>")?;
    let (build, _) = rest.split_once("</string>")?;
    Some(format!("macOS {build}"))
}

/// Whether CubeCL, left to itself, compiles to SPIR-V for `adapter`.
fn takes_spirv(adapter: &wgpu::Adapter) -> bool {
    let mut properties = properties(adapter, &adapter.get_info());
    register_spirv(
        adapter,
        &mut properties,
        &mut WgpuCompilationOptions::default(),
    )
}

#[cfg(feature = "vulkan")]
fn lacks_for_spirv(adapter: &wgpu::Adapter, taken: bool) -> Option<String> {
    let model = "it lacks the Vulkan memory model of the device's scope, or addresses of buffers";
    if taken {
        vulkan::lacks_for_spirv(adapter)
    } else {
        Some(model.into())
    }
}

#[cfg(not(feature = "vulkan"))]
fn lacks_for_spirv(_: &wgpu::Adapter, _: bool) -> Option<String> {
    None
}

#[cfg(feature = "vulkan")]
fn register_spirv(
    adapter: &wgpu::Adapter,
    properties: &mut DeviceProperties,
    options: &mut WgpuCompilationOptions,
) -> bool {
    cubecl::wgpu::vulkan::register_vulkan_features(adapter, properties, options)
}

#[cfg(not(feature = "vulkan"))]
fn register_spirv(
    _: &wgpu::Adapter,
    _: &mut DeviceProperties,
    _: &mut WgpuCompilationOptions,
) -> bool {
    false
}

/// CubeCL's properties of the adapter before its shader compiler adds to them.
fn properties(adapter: &wgpu::Adapter, info: &wgpu::AdapterInfo) -> DeviceProperties {
    let limits = adapter.limits();
    let software = info.device_type == DeviceType::Cpu;
    // CubeCL's substitute for a browser that reports no subgroup sizes.
    let (plane_size_min, plane_size_max) = match (info.subgroup_min_size, info.subgroup_max_size) {
        (0, 0) => (8, 128),
        _ if cfg!(all(target_vendor = "apple", target_arch = "aarch64")) => (32, 32),
        sizes => sizes,
    };
    let cubes = limits.max_compute_workgroups_per_dimension;
    let alignment = limits
        .min_uniform_buffer_offset_alignment
        .max(limits.min_storage_buffer_offset_alignment);
    let binding = limits
        .max_storage_buffer_binding_size
        .min(limits.max_buffer_size);
    let mut properties = DeviceProperties::new(
        Default::default(),
        MemoryDeviceProperties::new(binding, u64::from(alignment)),
        HardwareProperties {
            load_width: 128,
            vector_register_count: None,
            plane_size_min,
            plane_size_max,
            // One more binding holds the lengths of the others.
            max_bindings: limits
                .max_storage_buffers_per_shader_stage
                .saturating_sub(1),
            max_shared_memory_size: limits.max_compute_workgroup_storage_size as usize,
            max_cube_count: (cubes, cubes, cubes),
            max_units_per_cube: limits.max_compute_invocations_per_workgroup,
            max_cube_dim: (
                limits.max_compute_workgroup_size_x,
                limits.max_compute_workgroup_size_y,
                limits.max_compute_workgroup_size_z,
            ),
            num_streaming_multiprocessors: None,
            num_cpu_cores: None,
            last_level_cache_size: None,
            num_tensor_cores: None,
            min_tensor_cores_dim: None,
            max_vector_size: 4,
            cube_mma_reserved_shared_memory: 0,
        },
        TimingMethod::System,
        DeviceIdentity {
            name: info.name.clone(),
            fingerprint: String::new(),
            physical: (!software).then(PhysicalDevice::default),
        },
    );
    // CubeCL uses subgroup operations on no software adapter.
    if adapter.features().contains(wgpu::Features::SUBGROUP) && !software {
        properties.features.plane.insert(Plane::Ops);
    }
    properties
}

#[cfg(test)]
#[path = "adapter_tests.rs"]
mod tests;
