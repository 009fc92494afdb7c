//! A device in a browser: opened asynchronously, lost at any moment, with errors reported on the side.
//!
//! It compiles everywhere, so that it is checked with the rest; outside of a browser nothing opens.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use cubecl::device::WgpuDevice;
use cubecl::wgpu::{RuntimeOptions, WgpuInitError, WgpuSetup, try_init_device};
use wgpu::{Adapter, Backend, Backends, DeviceLostReason, DeviceType};

use crate::{Capability, Device, DeviceKind, OpenError, Opened, Runtime, Vendor};

/// Which GPU to prefer where there are two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PowerPreference {
    /// The faster one.
    #[default]
    High,
    /// The one that spares the battery.
    Low,
}

/// The end of a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device was lost: {message}")]
pub struct DeviceLoss {
    /// It was destroyed by the program, and not by the browser, the driver or the machine.
    pub destroyed: bool,
    /// The browser's words.
    pub message: String,
}

/// What a device reported beside the results it gave.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceFailure {
    /// It is gone.
    #[error(transparent)]
    Lost(#[from] DeviceLoss),
    /// A buffer did not fit; what was to be written there is not.
    #[error("out of memory on the device: {0}")]
    OutOfMemory(String),
    /// It refused an operation.
    #[error("the device refused an operation: {0}")]
    Refused(String),
}

/// An open WebGPU device of this page or worker.
#[derive(Debug)]
pub struct BrowserDevice {
    opened: Opened,
    device: wgpu::Device,
    watch: Arc<Watch>,
}

impl BrowserDevice {
    /// Asks the browser for an adapter, and the adapter for a device with all it has.
    ///
    /// Each call makes a device of its own, so one that was lost can be replaced. What lived on the
    /// old one is gone.
    ///
    /// # Errors
    /// [`OpenError::NoDriver`] where the page has no WebGPU or the browser gives no adapter,
    /// [`OpenError::Failed`] when the adapter gives no device.
    pub async fn open(preference: PowerPreference) -> Result<Self, OpenError> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
            backends: Backends::BROWSER_WEBGPU,
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        });
        let adapter = adapter(&instance, preference).await?;
        let (device, queue) = request_device(&adapter).await?;
        let watch = Arc::new(Watch::default());
        let setup = WgpuSetup {
            instance,
            adapter: adapter.clone(),
            device: device.clone(),
            queue,
            backend: Backend::BrowserWebGpu,
        };
        let inner = RuntimeOptions::try_default()
            .and_then(|options| try_init_device(setup, options))
            .map_err(|error: WgpuInitError| failed(error.to_string()))?;
        // After CubeCL, whose own listener panics at an error: a page has one listener for them.
        watch.listen(&device);
        Ok(Self {
            opened: opened(inner, &adapter),
            device,
            watch,
        })
    }

    /// The device as every other program opens it.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// The first thing that went wrong since the last call; a loss stays.
    ///
    /// The browser tells it after the fact: ask when a result has arrived, before trusting it.
    ///
    /// # Errors
    /// The failure.
    pub fn check(&self) -> Result<(), DeviceFailure> {
        let mut state = self.watch.state();
        if let Some(loss) = &state.loss {
            return Err(loss.clone().into());
        }
        state.failure.take().map_or(Ok(()), Err)
    }

    /// How the device ended, if it has.
    pub fn loss(&self) -> Option<DeviceLoss> {
        self.watch.state().loss.clone()
    }

    /// Waits for the end of the device.
    pub fn lost(&self) -> Lost {
        let mut state = self.watch.state();
        state.asked += 1;
        Lost {
            number: state.asked,
            watch: self.watch.clone(),
        }
    }

    /// Frees the device and all memory on it; [`BrowserDevice::lost`] ends.
    pub fn destroy(&self) {
        self.device.destroy();
    }
}

/// The end of a device, to wait for.
#[derive(Debug)]
pub struct Lost {
    number: u64,
    watch: Arc<Watch>,
}

impl Future for Lost {
    type Output = DeviceLoss;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<DeviceLoss> {
        let mut state = self.watch.state();
        if let Some(loss) = &state.loss {
            return Poll::Ready(loss.clone());
        }
        state.waiting.insert(self.number, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Lost {
    /// Every call races with the end of its device, and few devices end: who stopped waiting is forgotten.
    fn drop(&mut self) {
        self.watch.state().waiting.remove(&self.number);
    }
}

async fn adapter(
    instance: &wgpu::Instance,
    preference: PowerPreference,
) -> Result<Adapter, OpenError> {
    let options = wgpu::RequestAdapterOptions {
        power_preference: match preference {
            PowerPreference::High => wgpu::PowerPreference::HighPerformance,
            PowerPreference::Low => wgpu::PowerPreference::LowPower,
        },
        ..wgpu::RequestAdapterOptions::default()
    };
    instance.request_adapter(&options).await.map_err(|_| {
        // The browser gives no reason, only none.
        OpenError::NoDriver {
            device: Device::Wgpu(None),
            library: "a browser with WebGPU",
            reason: "this page gets no WebGPU adapter".to_owned(),
        }
    })
}

async fn request_device(adapter: &Adapter) -> Result<(wgpu::Device, wgpu::Queue), OpenError> {
    let descriptor = wgpu::DeviceDescriptor {
        required_features: adapter.features(),
        required_limits: adapter.limits(),
        ..wgpu::DeviceDescriptor::default()
    };
    adapter
        .request_device(&descriptor)
        .await
        .map_err(|error| failed(error.to_string()))
}

fn failed(reason: String) -> OpenError {
    OpenError::Failed {
        device: Device::Wgpu(None),
        reason,
    }
}

fn opened(inner: WgpuDevice, adapter: &Adapter) -> Opened {
    let cubecl = cubecl::Device::Wgpu(inner);
    let mut capability = Capability::from_properties(Runtime::Wgpu, cubecl.client().properties());
    // A page learns no more of an adapter than whether it is the software one.
    if adapter.get_info().device_type == DeviceType::Cpu {
        (capability.kind, capability.vendor) = (DeviceKind::Cpu, Vendor::Software);
    } else {
        capability.kind = DeviceKind::Unknown;
    }
    Opened {
        device: Device::Wgpu(Some(0)),
        capability,
        cubecl: Some(cubecl),
    }
}

/// What the device's events left behind.
#[derive(Debug, Default)]
struct Watch(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    loss: Option<DeviceLoss>,
    failure: Option<DeviceFailure>,
    /// How often the end was asked for.
    asked: u64,
    /// Those of them who wait, by number.
    waiting: BTreeMap<u64, Waker>,
}

impl Watch {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(self: &Arc<Self>, device: &wgpu::Device) {
        let watch = self.clone();
        device.set_device_lost_callback(move |reason, message| {
            let mut state = watch.state();
            state.loss = Some(DeviceLoss {
                destroyed: reason == DeviceLostReason::Destroyed,
                message,
            });
            let waiting = std::mem::take(&mut state.waiting);
            // A waker may poll at once, and polling asks for the state.
            drop(state);
            waiting.into_values().for_each(Waker::wake);
        });
        let watch = self.clone();
        device.on_uncaptured_error(Arc::new(move |error| {
            let failure = match error {
                wgpu::Error::OutOfMemory { .. } => DeviceFailure::OutOfMemory(error.to_string()),
                other => DeviceFailure::Refused(other.to_string()),
            };
            // The first is the cause; what follows are operations on what it left invalid.
            watch.state().failure.get_or_insert(failure);
        }));
    }
}

#[cfg(test)]
#[path = "browser_tests.rs"]
mod tests;
