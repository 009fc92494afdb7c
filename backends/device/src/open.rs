//! Finding the devices of this build and this machine, and opening them.

use cubecl::client::Client;

use crate::guard;
use crate::located::{Found, Located};
use crate::memory::host_memory_free;
use crate::{Capability, Device, OpenError, Runtime, choose};

/// Every device of every runtime in this build, and one entry for each runtime that is left out or has no device, with
/// the reason.
///
/// The order is `cuda`, `rocm`, `vulkan`, `wgpu`, `cpu`, `flex`, each by index. A GPU is listed once for every runtime
/// that reaches it. Only adapter descriptions are read, except that `rocm` and `cpu` start their runtime, because only
/// a started one can be asked. Never panics.
pub fn discover() -> Vec<Found> {
    let runtimes = Device::RUNTIMES.into_iter();
    let ours = runtimes.filter(|runtime| !matches!(runtime, Device::Xla(..)));
    ours.flat_map(|runtime| discover_on(&runtime)).collect()
}

/// What [`discover`] lists of one runtime, a device's name without an index; no other runtime is asked. A device of XLA is
/// listed without a search for its plugin.
pub fn discover_on(runtime: &Device) -> Vec<Found> {
    match list(*runtime) {
        Ok(found) => found,
        Err(error) => vec![Found {
            device: *runtime,
            status: Err(error),
        }],
    }
}

/// What `device` can do.
///
/// For wgpu and flex nothing is started, but for the kernel that counts a software adapter's loops once; `cuda`, `rocm`
/// and `cpu` start their runtime, because only the started runtime knows which types and matrix shapes its compiler
/// takes. `auto` is the device that [`choose`] picks.
///
/// # Errors
///
/// [`OpenError`] as from [`open`](crate::open).
pub fn probe(device: &Device) -> Result<Capability, OpenError> {
    named(device)?.capability()
}

/// Finds the device with this name without starting it; `auto` is what [`choose`] picks.
fn named(device: &Device) -> Result<Located, OpenError> {
    locate(match device {
        Device::Auto => choose(&discover())?.device,
        named => *named,
    })
}

/// A started device.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The device's name: never [`Device::Auto`], and with its index where the runtime has indices.
    pub device: Device,
    /// What the device can do.
    pub capability: Capability,
    pub(crate) cubecl: Option<cubecl::Device>,
}

impl Opened {
    /// The device as CubeCL names it; `None` for `flex`, which CubeCL does not run.
    pub fn cubecl(&self) -> Option<cubecl::Device> {
        self.cubecl.clone()
    }

    /// A client of the device's runtime, to launch kernels and read memory figures with; `None`
    /// for `flex`.
    pub fn client(&self) -> Option<Client> {
        // `open` has started the runtime; this starts nothing.
        self.cubecl.as_ref().map(cubecl::Device::client)
    }
}

/// Starts `device`'s runtime.
///
/// `auto` takes the device that [`choose`] picks and reports that device's error if it fails: no other device is tried
/// silently. Opening the same device again is cheap and shares the runtime.
///
/// # Errors
///
/// [`OpenError`], always before any kernel runs; a missing driver is an error, not a panic.
pub fn open(device: &Device) -> Result<Opened, OpenError> {
    let located = named(device)?;
    if let Some(inner) = &located.cubecl {
        start(located.device, inner)?;
    }
    let capability = located.capability()?;
    Ok(Opened {
        device: located.device,
        capability,
        cubecl: located.cubecl,
    })
}

/// What a started device can do, whoever has started it: what CubeCL's properties tell, completed by the limit of a software
/// adapter's loops ([`Capability::loop_rounds`]). A browser's adapter must have been opened by this crate, because a page can't
/// wait for a measurement here.
pub fn capability_of(runtime: Runtime, client: &Client) -> Capability {
    let capability = Capability::from_properties(runtime, client.properties());
    #[cfg(feature = "wgpu")]
    let capability = with_loop_rounds(capability);
    capability
}

/// Adds the limit of a software adapter's loops; other capabilities stay as they are.
#[cfg(feature = "wgpu")]
fn with_loop_rounds(capability: Capability) -> Capability {
    use crate::rounds::{LEAST, recall};

    let graphics = matches!(capability.runtime, Runtime::Wgpu | Runtime::Vulkan);
    if !graphics || !capability.is_cpu() {
        return capability;
    }
    let limit = recall(&capability.name);
    #[cfg(not(target_family = "wasm"))]
    let limit = limit.or_else(|| {
        // The list measures all software adapters; why it may fail is of no interest for a device that is open.
        let _ = crate::adapter::list(Device::Wgpu(None));
        recall(&capability.name)
    });
    Capability {
        loop_rounds: limit.unwrap_or(Some(LEAST)),
        ..capability
    }
}

impl Located {
    /// What the device can do; asks its runtime, started if need be, unless the search already told.
    pub(crate) fn capability(&self) -> Result<Capability, OpenError> {
        if let Some(known) = &self.known {
            return Ok(known.clone());
        }
        let Some(inner) = &self.cubecl else {
            return Err(OpenError::NoSuchDevice {
                device: self.device,
                available: Vec::new(),
            });
        };
        let client = start(self.device, inner)?;
        let runtime = match self.device {
            Device::Cuda(_) => Runtime::Cuda,
            Device::Rocm(_) => Runtime::Rocm,
            _ => Runtime::Cpu,
        };
        let capability = Capability::from_properties(runtime, client.properties());
        Ok(match self.device {
            #[cfg(feature = "cuda")]
            Device::Cuda(index) => crate::cuda::complete(capability, index.unwrap_or(0)),
            #[cfg(feature = "rocm")]
            Device::Rocm(_) => crate::rocm::complete(capability, client.properties()),
            #[cfg(feature = "cpu")]
            Device::Cpu => crate::host::complete(capability),
            _ => capability,
        })
    }
}

/// Finds `device`, which must not be `auto`, without starting it.
fn locate(device: Device) -> Result<Located, OpenError> {
    match device {
        Device::Auto => Err(OpenError::NoSuchDevice {
            device,
            available: Vec::new(),
        }),
        #[cfg(all(feature = "wgpu", not(target_family = "wasm")))]
        Device::Wgpu(_) => crate::adapter::locate(device),
        #[cfg(all(feature = "wgpu", target_family = "wasm"))]
        Device::Wgpu(_) => Err(OpenError::Failed {
            device,
            reason: "a browser opens devices asynchronously, with `browser::BrowserDevice`".into(),
        }),
        #[cfg(all(feature = "vulkan", not(target_family = "wasm")))]
        Device::Vulkan(_) => crate::adapter::locate(device),
        #[cfg(feature = "cuda")]
        Device::Cuda(_) => crate::cuda::locate(device),
        #[cfg(feature = "rocm")]
        Device::Rocm(_) => crate::rocm::locate(device),
        #[cfg(feature = "cpu")]
        Device::Cpu => Ok(crate::host::locate_cpu()),
        #[cfg(feature = "flex")]
        Device::Flex => Ok(crate::host::locate_flex()),
        #[cfg(feature = "xla")]
        Device::Xla(platform, index) => Ok(xla(platform, index)),
        #[allow(
            unreachable_patterns,
            reason = "every runtime may be part of the build"
        )]
        _ => Err(OpenError::NotBuilt {
            device,
            feature: device.feature(),
        }),
    }
}

/// Lists the devices of `runtime`, a device name without an index: at least one, or the reason.
fn list(runtime: Device) -> Result<Vec<Found>, OpenError> {
    match runtime {
        #[cfg(all(feature = "wgpu", not(target_family = "wasm")))]
        Device::Wgpu(_) => crate::adapter::list(runtime),
        #[cfg(all(feature = "vulkan", not(target_family = "wasm")))]
        Device::Vulkan(_) => crate::adapter::list(runtime),
        #[cfg(feature = "cuda")]
        Device::Cuda(_) => crate::cuda::list(runtime),
        #[cfg(feature = "rocm")]
        Device::Rocm(_) => crate::rocm::list(runtime),
        _ => {
            let located = locate(runtime)?;
            Ok(vec![Found {
                device: located.device,
                status: located.capability(),
            }])
        }
    }
}

/// Bytes that can still be allocated on a device, as its driver tells now; [`host_memory_free`] for devices that compute on
/// the processor. A GPU behind wgpu tells where its driver is one of Vulkan with `VK_EXT_memory_budget`. `None` where nothing
/// tells, such as in browsers.
pub fn memory_free(device: &cubecl::Device) -> Option<u64> {
    match device {
        cubecl::Device::Cpu(_) => host_memory_free(),
        #[cfg(all(feature = "wgpu", not(target_family = "wasm")))]
        cubecl::Device::Wgpu(wgpu) => crate::adapter::free(&wgpu.kind),
        #[cfg(feature = "cuda")]
        cubecl::Device::Cuda(cuda) => crate::cuda::free(cuda.index),
        #[cfg(feature = "rocm")]
        cubecl::Device::Hip(_) => crate::rocm::free(device.client().properties()),
        _ => None,
    }
}

/// The runtime's client, started if need be. The runtime must be part of the build.
fn start(device: Device, inner: &cubecl::Device) -> Result<Client, OpenError> {
    guard::quietly(|| inner.client()).map_err(|reason| OpenError::Failed { device, reason })
}

/// A device of XLA, without looking for its plugin, which is loaded when the device is opened for tensors. XLA plans
/// its own kernels, so the limits are [`Limits::NO_LAUNCH`](crate::Limits::NO_LAUNCH).
#[cfg(feature = "xla")]
fn xla(platform: crate::XlaPlatform, index: Option<u32>) -> Located {
    use crate::{DeviceKind, Limits, Vendor, XlaPlatform};

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
        memory: match platform {
            XlaPlatform::Cpu => crate::memory::host_memory(),
            XlaPlatform::Tpu | XlaPlatform::Cuda => None,
        },
        ..Capability::webgpu_default()
    };
    Located {
        device: Device::Xla(platform, Some(index.unwrap_or(0))),
        cubecl: None,
        known: Some(capability),
    }
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;
