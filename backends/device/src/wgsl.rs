//! `wgpu` in a build with the feature `vulkan`: kernels in WGSL, as in a build without it.
//!
//! CubeCL takes SPIR-V wherever it is built in and the driver has a memory model of the scope of the device, and offers no
//! choice. So a `wgpu` device there comes from an instance of Vulkan that tells of no such scope, and is registered with
//! CubeCL as one that the program brought along.
#![allow(
    unsafe_code,
    reason = "wgpu takes an instance of Vulkan, and ash its functions, on trust"
)]

use std::ffi::{CStr, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use ash::vk;
use cubecl::device::{WgpuDevice, WgpuDeviceKind};
use cubecl::wgpu::{RuntimeOptions, WgpuSetup, try_init_device};
use wgpu::hal::{Instance as _, InstanceDescriptor, vulkan};
use wgpu::{Backend, Features, InstanceFlags};

use crate::named::by_name;

/// The extension without which CubeCL's SPIR-V for a kernel with shared memory is invalid.
const EXPLICIT_LAYOUT: &CStr = ash::khr::workgroup_memory_explicit_layout::NAME;

/// What `adapter` lacks for CubeCL's SPIR-V.
pub(crate) fn lacks_for_spirv(adapter: &wgpu::Adapter) -> Option<String> {
    // SAFETY: the adapter's handles are read and not kept.
    let hal = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() };
    let Some(hal) = hal else {
        return Some("it is no adapter of Vulkan".into());
    };
    let capabilities = hal.physical_device_capabilities();
    (!capabilities.supports_extension(EXPLICIT_LAYOUT)).then(|| {
        let name = EXPLICIT_LAYOUT.to_string_lossy();
        format!("kernels in SPIR-V need {name}, which it doesn't have; `wgpu` runs them in WGSL")
    })
}

struct Started {
    kind: WgpuDeviceKind,
    device: WgpuDevice,
    handle: wgpu::Device,
}

static STARTED: Mutex<Vec<Started>> = Mutex::new(Vec::new());

/// The adapter of this name for kernels in WGSL: started once, and the same from then on.
pub(crate) fn device(kind: &WgpuDeviceKind) -> Result<WgpuDevice, String> {
    let mut all = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(started) = all.iter().find(|started| started.kind == *kind) {
        return Ok(started.device.clone());
    }
    let started = start(kind)?;
    let device = started.device.clone();
    all.push(started);
    Ok(device)
}

/// wgpu's own handle of the adapter of this name, if it was started here.
pub(crate) fn handle(kind: &WgpuDeviceKind) -> Option<wgpu::Device> {
    let all = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let started = all.iter().find(|started| started.kind == *kind)?;
    Some(started.handle.clone())
}

fn start(kind: &WgpuDeviceKind) -> Result<Started, String> {
    let instance = instance()?;
    let adapters = cubecl::future::block_on(instance.enumerate_adapters(Backend::Vulkan.into()));
    let (_, adapter) = by_name(adapters)
        .into_iter()
        .find(|(name, _)| name.as_ref() == Some(kind))
        .ok_or_else(|| format!("the driver no longer lists {kind:?}"))?;
    // As CubeCL asks for its own devices, less what wgpu calls experimental.
    let left_out = Features::MAPPABLE_PRIMARY_BUFFERS | Features::all_experimental_mask();
    let descriptor = wgpu::DeviceDescriptor {
        required_features: adapter.features().difference(left_out),
        required_limits: adapter.limits(),
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        ..Default::default()
    };
    let (device, queue) = cubecl::future::block_on(adapter.request_device(&descriptor))
        .map_err(|error| error.to_string())?;
    let setup = WgpuSetup {
        instance,
        adapter,
        device: device.clone(),
        queue,
        backend: Backend::Vulkan,
    };
    let options = RuntimeOptions::try_default().map_err(|error| error.to_string())?;
    Ok(Started {
        kind: kind.clone(),
        device: try_init_device(setup, options).map_err(|error| error.to_string())?,
        handle: device,
    })
}

/// One for the life of the process: Vulkan loaders crash when instances come and go on several threads.
fn instance() -> Result<wgpu::Instance, String> {
    static INSTANCE: OnceLock<Result<wgpu::Instance, String>> = OnceLock::new();
    INSTANCE
        .get_or_init(|| without_device_scope().map_err(|error| error.to_string()))
        .clone()
}

fn without_device_scope() -> Result<wgpu::Instance, wgpu::hal::InstanceError> {
    let descriptor = InstanceDescriptor {
        name: "moebius",
        flags: InstanceFlags::default(),
        memory_budget_thresholds: Default::default(),
        backend_options: Default::default(),
        telemetry: None,
        display: None,
    };
    // SAFETY: nothing is asked of the caller but a descriptor that is valid.
    let whole = unsafe { vulkan::Instance::init(&descriptor) }?;
    let shared = whole.shared_instance();
    let (entry, handle) = (shared.entry().clone(), shared.raw_instance().handle());
    let version = shared.instance_api_version();
    let extensions = shared.extensions().to_vec();
    let find = |name: &CStr| {
        // SAFETY: the handle is that of a living instance, and `FEATURES` has the type of the function that it stands for.
        let function = unsafe { (entry.static_fn().get_instance_proc_addr)(handle, name.as_ptr()) };
        if name != c"vkGetPhysicalDeviceFeatures2" {
            return function.map_or(std::ptr::null(), |function| function as *const c_void);
        }
        if let Some(function) = function {
            // SAFETY: Vulkan gives a function of this name that type.
            let function = unsafe {
                std::mem::transmute::<
                    unsafe extern "system" fn(),
                    vk::PFN_vkGetPhysicalDeviceFeatures2,
                >(function)
            };
            FEATURES.get_or_init(|| function);
        }
        features_without_device_scope as *const c_void
    };
    // SAFETY: the functions are those of the instance, of which one passes its call on.
    let raw = unsafe { ash::Instance::load_with(find, handle) };
    let flags = descriptor.flags;
    let end = Box::new(move || drop(whole));
    // SAFETY: version, extensions and flags are those that wgpu made the instance with, which lives until the callback drops it.
    let instance = unsafe {
        vulkan::Instance::from_raw(
            entry.clone(),
            raw,
            version,
            0,
            None,
            extensions,
            flags,
            descriptor.memory_budget_thresholds,
            false,
            Some(end),
        )
    }?;
    // SAFETY: the instance was made a moment ago and is used for this only.
    Ok(unsafe { wgpu::Instance::from_hal::<wgpu::hal::api::Vulkan>(instance) })
}

/// The loader's own function.
static FEATURES: OnceLock<vk::PFN_vkGetPhysicalDeviceFeatures2> = OnceLock::new();

/// What the driver says, without the memory model's scope of the device.
unsafe extern "system" fn features_without_device_scope(
    device: vk::PhysicalDevice,
    features: *mut vk::PhysicalDeviceFeatures2<'_>,
) {
    let Some(function) = FEATURES.get() else {
        return;
    };
    // SAFETY: the caller's arguments are passed on.
    unsafe { function(device, features) };
    let mut next = features.cast::<vk::BaseOutStructure<'_>>();
    while !next.is_null() {
        // SAFETY: Vulkan's structures are chained by their first two fields, which tell the type of each.
        unsafe {
            if (*next).s_type == vk::StructureType::PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES {
                let model = next.cast::<vk::PhysicalDeviceVulkanMemoryModelFeatures<'_>>();
                (*model).vulkan_memory_model_device_scope = vk::FALSE;
            }
            next = (*next).p_next;
        }
    }
}
