//! XLA's devices: opens devices of `moebius-xla` with the errors and types of this crate.

use crate::Error;
use burn::tensor::{Tensor, TensorData};
use moebius_device::{Device, Found, OpenError, XlaPlatform};
use moebius_pjrt::{Environment, LoadedExecutable, Platform, locate};
use moebius_shaders::Unsupported;
use moebius_xla::parallel::Group;
use moebius_xla::stablehlo::Program;
use std::sync::{Mutex, PoisonError};

/// Neighbouring XLA devices that compute one layer together; see [`MoeLayer::place`](crate::moe::MoeLayer::place). A clone refers to the
/// same devices.
#[derive(Clone, Debug)]
pub struct DeviceGroup(pub(crate) Group);

impl DeviceGroup {
    /// Opens `count` devices from `first` on: `xla:tpu:4` and 4 open the TPUs 4 to 7. `xla:cpu` has any number of devices, which share the
    /// processor and are meant for trials.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for a device that isn't XLA's,
    /// [`ErrorKind::Open`](crate::ErrorKind::Open) when the plugin is missing, there are fewer devices, or `count` is 0.
    pub fn open(first: &Device, count: usize) -> Result<Self, Error> {
        let Device::Xla(platform, index) = *first else {
            let needs = "a device of XLA, such as `xla:cpu`";
            return Err(Unsupported::new("a group of devices", needs, first).into());
        };
        let opened = Group::open(plugin(platform), index.unwrap_or(0) as usize, count);
        Ok(Self(opened.map_err(|error| reason(*first, error))?))
    }

    /// The number of devices.
    pub fn count(&self) -> usize {
        self.0.devices().len()
    }
}

/// The passes that a program of a group computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    Forward,
    /// The forward and the backward pass.
    Both,
}

/// The compiled programs of a group by key, at most [`Programs::MOST`].
#[derive(Debug)]
pub(crate) struct Programs<K>(Mutex<Vec<(K, LoadedExecutable)>>);

impl<K: PartialEq> Programs<K> {
    const MOST: usize = 32;

    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }

    /// Returns the program of `key`; compiles it at the first call.
    pub(crate) fn get(
        &self,
        group: &DeviceGroup,
        key: K,
        program: impl FnOnce() -> Result<Program, Error>,
    ) -> Result<LoadedExecutable, Error> {
        let programs = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, program)) = programs().iter().find(|(other, _)| *other == key) {
            return Ok(program.clone());
        }
        // The lock is released while a program compiles, so that others may compile at the same time.
        let program = group.0.compile(&program()?).map_err(Error::device)?;
        let mut programs = programs();
        if programs.len() >= Self::MOST {
            programs.clear();
        }
        programs.push((key, program.clone()));
        Ok(program)
    }
}

/// Reads a tensor's values; waits for the device.
pub(crate) fn data<const D: usize>(tensor: Tensor<D>) -> Result<TensorData, Error> {
    tensor.try_into_data().map_err(Error::device)
}

/// Opens a device for ordinary tensors.
pub(crate) fn open(
    platform: XlaPlatform,
    index: Option<u32>,
) -> Result<burn::tensor::Device, Error> {
    let opened = moebius_xla::open(plugin(platform), index.unwrap_or(0) as usize);
    Ok(opened.map_err(|error| reason(Device::Xla(platform, index), error))?)
}

/// Lists one entry per platform: its first device if a plugin is installed and the PCI bus shows its hardware, or what is missing. Loads
/// nothing.
pub(crate) fn discover() -> Vec<Found> {
    let environment = Environment::from_process();
    let found = XlaPlatform::ALL.into_iter().map(|platform| {
        let device = Device::Xla(platform, None);
        let status = match locate(plugin(platform), &environment) {
            Ok(_) if environment.has_hardware(plugin(platform)) => moebius_device::probe(&device),
            Ok(_) => Err(OpenError::NoSuchDevice {
                device,
                available: Vec::new(),
            }),
            Err(error) => Err(reason(
                device,
                moebius_xla::OpenError::Plugin(moebius_pjrt::Error::NotFound(Box::new(error))),
            )),
        };
        Found { device, status }
    });
    found.collect()
}

fn plugin(platform: XlaPlatform) -> Platform {
    match platform {
        XlaPlatform::Cpu => Platform::Cpu,
        XlaPlatform::Tpu => Platform::Tpu,
        XlaPlatform::Cuda => Platform::Cuda,
    }
}

fn reason(device: Device, error: moebius_xla::OpenError) -> OpenError {
    use moebius_xla::OpenError as Xla;
    match error {
        Xla::Plugin(moebius_pjrt::Error::NoSuchDevice { count, .. }) => OpenError::NoSuchDevice {
            device,
            available: devices(device, count),
        },
        Xla::Plugin(error @ moebius_pjrt::Error::NotFound(_)) => OpenError::NoDriver {
            device,
            library: "its PJRT plugin",
            reason: error.to_string(),
        },
        other => OpenError::Failed {
            device,
            reason: other.to_string(),
        },
    }
}

fn devices(device: Device, count: usize) -> Vec<Device> {
    match device {
        Device::Xla(platform, _) => (0..count as u32)
            .map(|i| Device::Xla(platform, Some(i)))
            .collect(),
        other => vec![other],
    }
}
