//! Burn devices from device names, and the capabilities of Burn devices for planning.

use crate::Error;
use crate::check::element;
use burn::backend::DispatchDevice;
use burn::tensor::DType;
use moebius_device::{Capability, Device, Found, MemoryUse, Opened, Placement};
use moebius_ops::Fault;
use moebius_shaders::{DeviceElement, Unsupported};
use std::sync::Arc;

/// Opens `device` for Burn; `auto` prefers a real GPU, then the fastest path on the CPU.
///
/// # Errors
/// [`ErrorKind::Open`](crate::ErrorKind::Open) when the driver or the device is missing, or this build lacks the device's feature.
pub fn open(device: &Device) -> Result<burn::tensor::Device, Error> {
    on(&moebius_device::open(device)?)
}

/// Opens the devices of `placement` for Burn as one device, from `first` on: `xla:tpu:4` and `experts=2,data=2` open the TPUs 4 to 7. What
/// runs there is divided by XLA, with the results of one device up to the order of sums: the experts of a layer, their gradients and the
/// state of an optimizer for them among `experts` parts, tokens among `data` parts. `xla:cpu` has any number of devices, which share the
/// processor and are meant for trials.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for several devices that aren't XLA's, or when this build lacks it,
/// [`ErrorKind::Open`](crate::ErrorKind::Open) when the plugin is missing, or there are fewer devices, and
/// [`ErrorKind::Config`](crate::ErrorKind::Config) for more devices than a program can be compiled for.
pub fn open_placed(first: &Device, placement: Placement) -> Result<burn::tensor::Device, Error> {
    if placement.devices() == 1 {
        return open(first);
    }
    let Device::Xla(platform, index) = *first else {
        let needs = "a device of XLA, such as `xla:cpu`";
        return Err(Unsupported::new("a placement over several devices", needs, first).into());
    };
    #[cfg(feature = "xla")]
    return crate::xla::open_placed(platform, index, placement);
    #[cfg(not(feature = "xla"))]
    {
        let _ = (platform, index);
        Err(not_built(first).into())
    }
}

/// Checks that a device can divide the `experts` experts of a layer. Every device can that isn't several ([`open_placed`]).
///
/// # Errors
/// [`ErrorKind::Config`](crate::ErrorKind::Config) unless the number of experts is a multiple of the parts that the placement divides them
/// into.
pub fn check_experts(device: &burn::tensor::Device, experts: usize) -> Result<(), Error> {
    let Some(places) = places_of_experts(device) else {
        return Ok(());
    };
    let expected = format_args!("a multiple of the {places} places of experts");
    let fits = experts.is_multiple_of(places);
    Ok(Fault::Config.unless(fits, "experts", expected, experts)?)
}

/// The number of parts that a device divides the experts of a layer into; `None` for a device that isn't several.
pub(crate) fn places_of_experts(device: &burn::tensor::Device) -> Option<usize> {
    #[cfg(feature = "xla")]
    return crate::xla::places_of_experts(device);
    #[cfg(not(feature = "xla"))]
    {
        let _ = device;
        None
    }
}

/// Returns the Burn device of a device that is open already, such as a browser's.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when this build lacks the device's feature.
pub fn on(opened: &Opened) -> Result<burn::tensor::Device, Error> {
    // Burn's settings can't be changed after the first use of a device.
    #[cfg(feature = "xla")]
    moebius_xla::configure();
    #[cfg(feature = "cube")]
    if let Some(cube) = opened.cubecl() {
        return Ok(burn::tensor::Device::new(cube));
    }
    #[cfg(feature = "flex")]
    if opened.device == Device::Flex {
        return Ok(burn::tensor::Device::flex());
    }
    #[cfg(feature = "xla")]
    if let Device::Xla(platform, index) = opened.device {
        return crate::xla::open(platform, index);
    }
    Err(not_built(&opened.device).into())
}

/// Lists the devices of every runtime in this build, as [`moebius_device::discover`] does, followed by XLA's platforms.
pub fn discover() -> Vec<Found> {
    let runtimes = Device::RUNTIMES.into_iter();
    let listed = |runtime: &Device| cfg!(feature = "xla") || !matches!(runtime, Device::Xla(..));
    let listed = runtimes.filter(listed);
    listed.flat_map(|runtime| discover_on(&runtime)).collect()
}

/// Lists what [`discover`] does of one runtime, a device's name without an index; the drivers of other runtimes are not loaded. A runtime that
/// isn't part of this build, or has no device, is one entry with the reason.
pub fn discover_on(runtime: &Device) -> Vec<Found> {
    #[cfg(feature = "xla")]
    if let Device::Xla(platform, _) = *runtime {
        return vec![crate::xla::find(platform)];
    }
    moebius_device::discover_on(runtime)
}

fn not_built(device: &Device) -> Unsupported {
    Unsupported::new(
        "this build",
        format!("a cargo feature for {device}"),
        "none for it",
    )
}

/// Returns the capabilities of the device behind a Burn device; `None` when CubeCL doesn't drive it.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for a backend that has no kernels here.
pub(crate) fn capability(device: &burn::tensor::Device) -> Result<Option<Arc<Capability>>, Error> {
    let device = device.clone().inner();
    match device.as_dispatch() {
        #[cfg(feature = "cube")]
        DispatchDevice::Cube(cube) => Ok(Some(cube::capability(cube))),
        #[cfg(feature = "flex")]
        DispatchDevice::Flex(_) => Ok(None),
        #[cfg(feature = "xla")]
        DispatchDevice::Remote(_) | DispatchDevice::Capture(_) => Ok(None),
        #[allow(
            unreachable_patterns,
            reason = "Burn features of a dependent add backends"
        )]
        other => {
            let needs = "a CubeCL runtime, XLA or flex";
            Err(Unsupported::new("moebius", needs, format!("{other:?}")).into())
        }
    }
}

/// Checks that `device` keeps tensors of `dtype` and that the operations here compute with them: f32 on every device, f16 and bf16 on those
/// whose adapter has them. Burn panics at the first operation on a tensor of a type that the device lacks.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for a type that the device lacks, [`ErrorKind::Shape`](crate::ErrorKind::Shape)
/// for another dtype than these three.
pub fn check_dtype(dtype: DType, device: &burn::tensor::Device) -> Result<(), Error> {
    let element = element(dtype)?;
    let stores = |capability: &Capability| element.supported("tensors", capability);
    plan(device, stores)?;
    Ok(())
}

/// Whether operations on a device are lowered to XLA.
pub(crate) fn is_xla(device: &burn::tensor::Device) -> bool {
    match device.clone().inner().as_dispatch() {
        #[cfg(feature = "xla")]
        DispatchDevice::Remote(_) | DispatchDevice::Capture(_) => true,
        _ => false,
    }
}

/// Calls `plan` with the capabilities of the device behind a Burn device; `None` where there are no kernels to plan.
///
/// # Errors
/// The errors of `plan`, and [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for a backend that has no kernels here.
pub(crate) fn plan<P, E: Into<Error>>(
    device: &burn::tensor::Device,
    plan: impl FnOnce(&Capability) -> Result<P, E>,
) -> Result<Option<P>, Error> {
    let capability = capability(device)?;
    let plan = capability.map(|capability| plan(&capability));
    plan.transpose().map_err(Into::into)
}

/// Waits for all earlier launches on CubeCL's CPU runtime; does nothing on other devices.
///
/// The runtime's launches go through a queue of 32 calls. A host thread that fills the queue spins, on a core that the kernels' threads
/// need. Call this now and then in a program that makes many small operations in a row, such as an optimizer.
///
/// # Errors
/// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device fails.
pub fn keep_pace(device: &burn::tensor::Device) -> Result<(), Error> {
    #[cfg(not(feature = "cube"))]
    let _ = device;
    #[cfg(feature = "cube")]
    {
        let inner = device.clone().inner();
        if let DispatchDevice::Cube(cubecl::Device::Cpu(_)) = inner.as_dispatch() {
            return inner.flush().map_err(Error::device);
        }
    }
    Ok(())
}

/// Runs `f` on one of the worker threads of Flex if its largest operation has enough multiply-adds to be shared by them; on other devices,
/// on the calling thread.
///
/// A thread outside of the workers that calls an operation wakes all of them and sleeps until they are done, which takes longer than a
/// small product. A call from inside wakes only the others, which stay awake until `f` is done. This pays around many operations in a row, such as
/// a forward pass. The caller's span of `tracing` goes on there.
pub fn on_workers<R: Send>(
    device: &burn::tensor::Device,
    multiply_adds: usize,
    f: impl FnOnce() -> R + Send,
) -> R {
    #[cfg(feature = "flex")]
    if is_flex(&device.clone().inner()) {
        let span = tracing::Span::current();
        return moebius_host::on_workers(multiply_adds, || span.in_scope(f));
    }
    let _ = (device, multiply_adds);
    f()
}

/// Runs `a` and `b` at the same time within [`on_workers`] on Flex, unless the device records gradients; elsewhere one after the other.
///
/// This pays for small operations that don't need each other's results, such as the projections of one token to queries, keys and values: their
/// threads wait for each other once, not once per operation. The caller's span of `tracing` goes on in both.
pub fn join<A: Send, B: Send>(
    device: &burn::tensor::Device,
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B + Send,
) -> (A, B) {
    #[cfg(feature = "flex")]
    if is_flex(device) {
        let span = tracing::Span::current();
        return moebius_host::join(|| span.in_scope(a), || span.in_scope(b));
    }
    let _ = device;
    (a(), b())
}

/// Whether a device is Flex and records no gradients.
pub(crate) fn is_flex(device: &burn::tensor::Device) -> bool {
    #[cfg(feature = "flex")]
    return matches!(device.as_dispatch(), DispatchDevice::Flex(_)) && !device.is_autodiff();
    #[cfg(not(feature = "flex"))]
    {
        let _ = device;
        false
    }
}

/// Returns the bytes of live buffers on the device as its allocator counts them after all work is done; `None` on a device without such an
/// allocator (`flex`).
///
/// # Errors
/// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device fails.
pub fn memory_in_use(device: &burn::tensor::Device) -> Result<Option<u64>, Error> {
    device.sync().map_err(Error::device)?;
    Ok(pools(device).map(|pools| pools.in_use))
}

/// What a device tells of its memory, each in bytes; `None` where nothing tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Memory {
    /// Bytes that can still be allocated ([`memory_free`]). What the pools keep for reuse counts as taken.
    pub free: Option<u64>,
    /// Bytes of live buffers, as the device's allocator counts them; `None` on a device without pools of CubeCL (`flex`, XLA).
    pub in_use: Option<u64>,
    /// Bytes that the pools have taken from the device: live buffers, their padding, and pages kept for reuse.
    pub reserved: Option<u64>,
}

/// Returns what a device tells of its memory after all work is done.
///
/// # Errors
/// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device fails.
pub fn memory(device: &burn::tensor::Device) -> Result<Memory, Error> {
    device.sync().map_err(Error::device)?;
    let pools = pools(device);
    Ok(Memory {
        free: memory_free(device),
        in_use: pools.map(|pools| pools.in_use),
        reserved: pools.map(|pools| pools.reserved),
    })
}

/// Does what [`memory_in_use`] does for a caller that can't block, such as a browser: counts after all work that the calling thread has put
/// on the device.
///
/// # Errors
/// As [`memory_in_use`].
pub async fn memory_in_use_async(device: &burn::tensor::Device) -> Result<Option<u64>, Error> {
    // Launches the operations that Burn's fusion holds back; doesn't wait for them.
    device.flush().map_err(Error::device)?;
    #[cfg(feature = "cube")]
    if let DispatchDevice::Cube(cube) = device.clone().inner().as_dispatch() {
        let client = cube.client();
        client.sync().await.map_err(Error::device)?;
    }
    Ok(pools(device).map(|pools| pools.in_use))
}

/// What the pools of a device hold; `None` on a device without any.
fn pools(device: &burn::tensor::Device) -> Option<MemoryUse> {
    match device.clone().inner().as_dispatch() {
        #[cfg(feature = "cube")]
        DispatchDevice::Cube(cube) => Some(moebius_device::memory_in_use(&cube.client())),
        #[allow(
            unreachable_patterns,
            reason = "without the features of other backends there are none"
        )]
        _ => None,
    }
}

/// Returns the bytes that can still be allocated on a device, as its driver tells now. On a processor that is main memory: what is free or
/// can be swapped out, and at most what the process's control groups and a limit of its address space leave. A GPU behind wgpu tells
/// what is left of the budget that its driver gives the process, where that is one of Vulkan with `VK_EXT_memory_budget`. `None` where nothing
/// tells: in a browser, on GPUs with another driver, and through XLA, but for the processor (`xla:cpu`) as one device.
pub fn memory_free(device: &burn::tensor::Device) -> Option<u64> {
    match device.clone().inner().as_dispatch() {
        #[cfg(feature = "cube")]
        DispatchDevice::Cube(cube) => moebius_device::memory_free(cube),
        #[cfg(feature = "flex")]
        DispatchDevice::Flex(_) => moebius_device::host_memory_free(),
        #[cfg(feature = "xla")]
        DispatchDevice::Remote(_) => crate::xla::memory_free(device),
        #[allow(
            unreachable_patterns,
            reason = "without the features of other backends there are none"
        )]
        _ => None,
    }
}

/// Returns the bytes that one buffer of a device may have for a kernel to bind it; `None` on a device that CubeCL doesn't drive, where only
/// memory bounds a tensor.
pub fn largest_buffer(device: &burn::tensor::Device) -> Option<u64> {
    let capability = capability(device).ok().flatten()?;
    Some(capability.limits.max_binding_bytes)
}

/// Waits for the device, and gives back what its pools of memory keep without use. In a browser, which can't wait, the pools keep it.
///
/// # Errors
/// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device fails.
pub fn release_memory(device: &burn::tensor::Device) -> Result<(), Error> {
    #[cfg(target_family = "wasm")]
    let _ = device;
    #[cfg(not(target_family = "wasm"))]
    {
        device.sync().map_err(Error::device)?;
        device.memory_cleanup();
    }
    Ok(())
}

#[cfg(feature = "cube")]
mod cube {
    use moebius_device::{Capability, Runtime};
    use std::collections::HashMap;
    use std::sync::{Arc, Mutex, PoisonError};

    /// Returns the capabilities of a CubeCL device, which are queried once per device.
    pub(super) fn capability(device: &cubecl::Device) -> Arc<Capability> {
        static FOUND: Mutex<Option<HashMap<cubecl::Device, Arc<Capability>>>> = Mutex::new(None);
        /// The most devices that are remembered: browsers make a new device each time that one is opened.
        const MOST: usize = 64;
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        let found = found.get_or_insert_default();
        if let Some(capability) = found.get(device) {
            return capability.clone();
        }
        let runtime = match device {
            cubecl::Device::Cuda(_) => Runtime::Cuda,
            cubecl::Device::Hip(_) => Runtime::Rocm,
            cubecl::Device::Cpu(_) => Runtime::Cpu,
            _ => Runtime::Wgpu,
        };
        let capability = moebius_device::capability_of(runtime, &device.client());
        let capability = Arc::new(capability);
        if found.len() >= MOST {
            found.clear();
        }
        found.insert(device.clone(), capability.clone());
        capability
    }
}
