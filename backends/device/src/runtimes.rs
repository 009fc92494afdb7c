//! The runtimes of this build: each finds its devices and starts them.

use cubecl::client::Client;

use crate::guard;
use crate::located::{Found, Located};
use crate::{Capability, Device, OpenError, Runtime};

impl Located {
    /// What the device can do, from its runtime where looking for it did not tell.
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

/// Finds `device`, which is not `auto`, without starting it.
pub(crate) fn locate(device: Device) -> Result<Located, OpenError> {
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
        Device::Xla(platform, index) => Ok(crate::xla::locate(platform, index)),
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

/// The devices of `runtime`, a device without an index; at least one, or the reason.
pub(crate) fn list(runtime: Device) -> Result<Vec<Found>, OpenError> {
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

/// The runtime's client, started if need be; the runtime has to be part of the build.
pub(crate) fn start(device: Device, inner: &cubecl::Device) -> Result<Client, OpenError> {
    guard::quietly(|| inner.client()).map_err(|reason| OpenError::Failed { device, reason })
}
