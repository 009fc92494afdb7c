//! A device in a browser: opened asynchronously, lost at any moment, with errors reported apart from results.
//!
//! The module compiles for every target, so that it is checked with the rest; outside of a browser no device opens.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use cubecl::device::WgpuDevice;
use cubecl::wgpu::{RuntimeOptions, WgpuInitError, WgpuSetup, try_init_device};
use wgpu::{Adapter, Backend, Backends, DeviceLostReason, DeviceType};

use crate::rounds;
use crate::{Capability, Device, DeviceKind, OpenError, Opened, Runtime, Vendor};

/// Which GPU to prefer on a machine with two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PowerPreference {
    /// The faster one.
    #[default]
    High,
    /// The one that uses less power.
    Low,
}

/// How a device ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device was lost: {message}")]
pub struct DeviceLoss {
    /// Whether the program destroyed the device, rather than the browser, the driver or the machine.
    pub destroyed: bool,
    /// The browser's message.
    pub message: String,
}

/// A failure that a device reported apart from the results it gave.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceFailure {
    /// The device is lost.
    #[error(transparent)]
    Lost(#[from] DeviceLoss),
    /// A buffer did not fit in memory; what was to be written to it is missing.
    #[error("out of memory on the device: {0}")]
    OutOfMemory(String),
    /// The device refused an operation.
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
    /// Asks the browser for an adapter, and the adapter for a device with all its features and limits.
    ///
    /// Each call makes a new device, so that a lost one can be replaced; buffers of the lost device are gone.
    ///
    /// # Errors
    ///
    /// [`OpenError::NoDriver`] where the page has no WebGPU or the browser gives no adapter, [`OpenError::Failed`] when
    /// the adapter gives no device.
    pub async fn open(preference: PowerPreference) -> Result<Self, OpenError> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
            backends: Backends::BROWSER_WEBGPU,
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        });
        let adapter = adapter(&instance, preference).await?;
        let (device, queue) = request_device(&adapter).await?;
        let software = adapter.get_info().device_type == DeviceType::Cpu;
        let loop_rounds = if software {
            rounds::measure(&device, &queue).await
        } else {
            None
        };
        let watch = Arc::new(Watch::default());
        let setup = WgpuSetup {
            instance,
            adapter,
            device: device.clone(),
            queue,
            backend: Backend::BrowserWebGpu,
        };
        let inner = RuntimeOptions::try_default()
            .and_then(|options| try_init_device(setup, options))
            .map_err(|error: WgpuInitError| failed(error.to_string()))?;
        // Listen after CubeCL does: a device has one error listener, and CubeCL's panics.
        watch.listen(&device);
        Ok(Self {
            opened: opened(inner, software, loop_rounds),
            device,
            watch,
        })
    }

    /// The device in the form that [`crate::open`] returns for others.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Reports the first failure since the last call; a loss is reported by every call.
    ///
    /// The browser reports failures late: call this when a result has arrived, before trusting the result.
    ///
    /// # Errors
    ///
    /// The [`DeviceFailure`], if there was one.
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

    /// Returns a future of the device's end.
    pub fn lost(&self) -> Lost {
        let mut state = self.watch.state();
        state.asked += 1;
        Lost {
            number: state.asked,
            watch: self.watch.clone(),
        }
    }

    /// Frees the device and all memory on it; then [`BrowserDevice::lost`] completes.
    pub fn destroy(&self) {
        self.device.destroy();
    }
}

/// A future that completes when the device ends.
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
    /// Forgets the waker: many calls wait for the end of a device besides their result, and few devices end.
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
        // The browser gives no reason when it gives no adapter.
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

fn opened(inner: WgpuDevice, software: bool, loop_rounds: Option<u32>) -> Opened {
    let cubecl = cubecl::Device::Wgpu(inner);
    let mut capability = Capability::from_properties(Runtime::Wgpu, cubecl.client().properties());
    // A page learns of an adapter only whether it is the software one.
    if software {
        (capability.kind, capability.vendor) = (DeviceKind::Cpu, Vendor::Software);
        capability.loop_rounds = loop_rounds;
        rounds::remember(&capability.name, loop_rounds);
    } else {
        capability.kind = DeviceKind::Unknown;
    }
    Opened {
        device: Device::Wgpu(Some(0)),
        capability,
        cubecl: Some(cubecl),
    }
}

/// The state that the device's events leave behind.
#[derive(Debug, Default)]
struct Watch(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    loss: Option<DeviceLoss>,
    failure: Option<DeviceFailure>,
    /// How many [`Lost`] futures were made; the last one's number.
    asked: u64,
    /// The wakers of waiting [`Lost`] futures, by number.
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
            // A waker may poll at once, and polling locks the state.
            drop(state);
            waiting.into_values().for_each(Waker::wake);
        });
        let watch = self.clone();
        device.on_uncaptured_error(Arc::new(move |error| {
            let failure = match error {
                wgpu::Error::OutOfMemory { .. } => DeviceFailure::OutOfMemory(error.to_string()),
                other => DeviceFailure::Refused(other.to_string()),
            };
            // Keep the first failure, which is the cause; those after it come from operations on what it left invalid.
            watch.state().failure.get_or_insert(failure);
        }));
    }
}

#[cfg(test)]
#[path = "browser_tests.rs"]
mod tests;
