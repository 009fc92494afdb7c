//! Vulkan devices that this crate starts and hands to CubeCL. CubeCL's own would use SPIR-V wherever they can, and
//! would give the driver SPIR-V that computes with bf16.

mod bf16;
mod instance;

use std::sync::{Mutex, PoisonError};

use cubecl::device::{WgpuDevice, WgpuDeviceKind};
use cubecl::future::block_on;
use cubecl::wgpu::vulkan::try_request_vulkan_device;
use cubecl::wgpu::{RuntimeOptions, WgpuSetup, try_init_device};
use wgpu::{Backend, Features};

pub use bf16::computed_in_f32 as bf16_in_f32;
pub(crate) use instance::lacks_for_spirv;

use crate::named::by_name;

/// The language that kernels are compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// WGSL, as in a build without the feature `vulkan`. CubeCL offers no choice, so the instance of these devices
    /// hides the device scope of the memory model, which CubeCL's SPIR-V needs.
    Wgsl,
    /// SPIR-V, with the arithmetic on bf16 done in f32.
    SpirV,
}

struct Started {
    language: Language,
    kind: WgpuDeviceKind,
    device: WgpuDevice,
    handle: wgpu::Device,
}

static STARTED: Mutex<Vec<Started>> = Mutex::new(Vec::new());

/// The device on the adapter with this name for kernels in `language`; started by the first call, and shared from then
/// on.
pub(crate) fn device(language: Language, kind: &WgpuDeviceKind) -> Result<WgpuDevice, String> {
    let mut all = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = |started: &&Started| started.language == language && started.kind == *kind;
    if let Some(started) = all.iter().find(known) {
        return Ok(started.device.clone());
    }
    let started = start(language, kind)?;
    let device = started.device.clone();
    all.push(started);
    Ok(device)
}

/// wgpu's handle of the device on this adapter for kernels in WGSL, if it was started here.
pub(crate) fn handle(kind: &WgpuDeviceKind) -> Option<wgpu::Device> {
    let all = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let wanted = |started: &&Started| started.language == Language::Wgsl && started.kind == *kind;
    Some(all.iter().find(wanted)?.handle.clone())
}

/// CubeCL's name for the adapter of a device that was started here; `None` for other devices.
pub(crate) fn adapter_of(device: &WgpuDeviceKind) -> Option<WgpuDeviceKind> {
    let all = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let started = all.iter().find(|started| started.device.kind == *device)?;
    Some(started.kind.clone())
}

fn start(language: Language, kind: &WgpuDeviceKind) -> Result<Started, String> {
    let instance = instance::of(language)?;
    let adapters = block_on(instance.enumerate_adapters(Backend::Vulkan.into()));
    let (_, adapter) = by_name(adapters)
        .into_iter()
        .find(|(name, _)| name.as_ref() == Some(kind))
        .ok_or_else(|| format!("the driver no longer lists {kind:?}"))?;
    let (device, queue) = match language {
        Language::Wgsl => for_wgsl(&adapter)?,
        Language::SpirV => block_on(try_request_vulkan_device(&adapter))
            .map_err(|error| error.to_string())?
            .ok_or("the driver lacks what SPIR-V of CubeCL's needs")?,
    };
    let setup = WgpuSetup {
        instance,
        adapter,
        device: device.clone(),
        queue,
        backend: Backend::Vulkan,
    };
    let options = RuntimeOptions::try_default().map_err(|error| error.to_string())?;
    Ok(Started {
        language,
        kind: kind.clone(),
        device: try_init_device(setup, options).map_err(|error| error.to_string())?,
        handle: device,
    })
}

/// Requests a device as CubeCL does, without the features that wgpu calls experimental.
fn for_wgsl(adapter: &wgpu::Adapter) -> Result<(wgpu::Device, wgpu::Queue), String> {
    let left_out = Features::MAPPABLE_PRIMARY_BUFFERS | Features::all_experimental_mask();
    let descriptor = wgpu::DeviceDescriptor {
        required_features: adapter.features().difference(left_out),
        required_limits: adapter.limits(),
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        ..Default::default()
    };
    block_on(adapter.request_device(&descriptor)).map_err(|error| error.to_string())
}
