//! Vulkan instances for wgpu in which one function is replaced.
#![allow(
    unsafe_code,
    reason = "wgpu takes an instance of Vulkan, and ash its functions, on trust"
)]

use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute;
use std::slice;
use std::sync::OnceLock;

use ash::vk;
use wgpu::InstanceFlags;
use wgpu::hal::{Instance as _, InstanceDescriptor, InstanceError, vulkan};

use super::{Language, bf16};

/// The extension without which CubeCL's SPIR-V is invalid for a kernel with shared memory.
const EXPLICIT_LAYOUT: &CStr = ash::khr::workgroup_memory_explicit_layout::NAME;

/// The reason why `adapter` can't run CubeCL's SPIR-V, if there is one.
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

/// The instance for kernels in `language`. Each lives as long as the process, because Vulkan loaders crash when
/// instances are made and destroyed on several threads.
pub(super) fn of(language: Language) -> Result<wgpu::Instance, String> {
    static INSTANCES: [OnceLock<Result<wgpu::Instance, String>>; 2] =
        [const { OnceLock::new() }; 2];
    let (place, replaced): (_, Replaced) = match language {
        Language::Wgsl => (0, without_device_scope),
        Language::SpirV => (1, with_bf16_in_f32),
    };
    INSTANCES[place]
        .get_or_init(|| instance(replaced).map_err(|error| error.to_string()))
        .clone()
}

/// Finds the loader's function with a name.
type Find<'a> = &'a dyn Fn(&CStr) -> vk::PFN_vkVoidFunction;

/// Replaces the loader's function with a name, if it is the one to replace.
type Replaced = fn(&CStr, Find<'_>) -> Option<*const c_void>;

fn instance(replaced: Replaced) -> Result<wgpu::Instance, InstanceError> {
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
    // SAFETY: the handle is that of a living instance.
    let find =
        |name: &CStr| unsafe { (entry.static_fn().get_instance_proc_addr)(handle, name.as_ptr()) };
    let load = |name: &CStr| {
        let own = || find(name).map_or(std::ptr::null(), |function| function as *const c_void);
        replaced(name, &find).unwrap_or_else(own)
    };
    // SAFETY: the functions are those of the instance, of which one passes its call on.
    let raw = unsafe { ash::Instance::load_with(load, handle) };
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

/// The loader's original functions, which the replacements call. The loader finds the driver by a function's first
/// argument, so that one copy serves all devices.
static FEATURES: OnceLock<vk::PFN_vkGetPhysicalDeviceFeatures2> = OnceLock::new();
static DEVICE_FUNCTION: OnceLock<vk::PFN_vkGetDeviceProcAddr> = OnceLock::new();
static CREATE_SHADER: OnceLock<vk::PFN_vkCreateShaderModule> = OnceLock::new();

fn without_device_scope(name: &CStr, find: Find<'_>) -> Option<*const c_void> {
    if name != c"vkGetPhysicalDeviceFeatures2" {
        return None;
    }
    let function = find(name)?;
    // SAFETY: Vulkan gives a function of this name that type.
    let function = unsafe {
        transmute::<unsafe extern "system" fn(), vk::PFN_vkGetPhysicalDeviceFeatures2>(function)
    };
    FEATURES.get_or_init(|| function);
    Some(features_without_device_scope as *const c_void)
}

/// Reports the driver's features without the device scope of the memory model.
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

fn with_bf16_in_f32(name: &CStr, find: Find<'_>) -> Option<*const c_void> {
    if name != c"vkGetDeviceProcAddr" {
        return None;
    }
    let (function, create) = (find(name)?, find(SHADER_MODULE)?);
    // SAFETY: Vulkan gives functions of these names these types.
    let (function, create) = unsafe {
        (
            transmute::<unsafe extern "system" fn(), vk::PFN_vkGetDeviceProcAddr>(function),
            transmute::<unsafe extern "system" fn(), vk::PFN_vkCreateShaderModule>(create),
        )
    };
    DEVICE_FUNCTION.get_or_init(|| function);
    CREATE_SHADER.get_or_init(|| create);
    Some(device_function as *const c_void)
}

const SHADER_MODULE: &CStr = c"vkCreateShaderModule";

/// Finds a device's function by name; [`create_shader`] in place of the one that makes shader modules.
unsafe extern "system" fn device_function(
    device: vk::Device,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: the caller hands over the name of a function, which ends with a zero.
    if unsafe { CStr::from_ptr(name) } == SHADER_MODULE {
        // SAFETY: a function without a type, which the caller gives the type that belongs to its name.
        return Some(unsafe {
            transmute::<vk::PFN_vkCreateShaderModule, unsafe extern "system" fn()>(create_shader)
        });
    }
    // SAFETY: the caller's arguments are passed on.
    DEVICE_FUNCTION
        .get()
        .and_then(|function| unsafe { function(device, name) })
}

/// Makes a shader module, with the arithmetic on bf16 done in f32.
unsafe extern "system" fn create_shader(
    device: vk::Device,
    info: *const vk::ShaderModuleCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    module: *mut vk::ShaderModule,
) -> vk::Result {
    let Some(create) = CREATE_SHADER.get() else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    // SAFETY: the caller's structure is valid, and its size counts the bytes of whole words.
    let (given, words) = unsafe {
        (
            *info,
            slice::from_raw_parts((*info).p_code, (*info).code_size / 4),
        )
    };
    match bf16::computed_in_f32(words) {
        // SAFETY: the caller's arguments are passed on.
        Ok(None) => unsafe { create(device, info, allocator, module) },
        Ok(Some(words)) => {
            let ours = vk::ShaderModuleCreateInfo {
                code_size: 4 * words.len(),
                p_code: words.as_ptr(),
                ..given
            };
            // SAFETY: as above, and the words live until the call returns.
            unsafe { create(device, &ours, allocator, module) }
        }
        Err(_) => vk::Result::ERROR_INVALID_SHADER_NV,
    }
}
