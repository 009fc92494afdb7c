//! Devices that run one program together, with arguments and results on the host.

use crate::lower::{LowerError, value_type};
use crate::machine::{self, RunError};
use crate::open::{self, OpenError};
use crate::stablehlo::Program;
use burn_backend::{Shape, TensorData};
use moebius_pjrt::{
    Buffer, Client, CompileOptions, Device, DiskCache, Donate, Environment, LoadedExecutable,
    Platform, Plugin, Value,
};

/// Devices of one client, each of which runs one replica of a program.
#[derive(Clone, Debug)]
pub struct Group {
    devices: Vec<Device>,
    options: CompileOptions,
    cache: Option<DiskCache>,
}

impl Group {
    /// Opens `count` devices of a platform, from number `first` on. A processor offers any number of devices, which
    /// belong to a client of their own and share its threads. Programs are kept on disk as for [`crate::open()`].
    ///
    /// # Errors
    ///
    /// [`OpenError`] when the platform can't be opened or has fewer devices, or when `count` is 0.
    pub fn open(platform: Platform, first: usize, count: usize) -> Result<Self, OpenError> {
        let environment = Environment::from_process();
        let end = first.saturating_add(count);
        let client = match platform {
            Platform::Cpu => {
                let devices = ("cpu_device_count", Value::Int(end as i64));
                Client::new(Plugin::open(platform, &environment)?, &[devices])?
            }
            _ => open::client(platform)?,
        };
        let all = client.devices();
        let devices = all
            .get(first..end)
            .ok_or(moebius_pjrt::Error::NoSuchDevice {
                index: end.saturating_sub(1),
                count: all.len(),
            })?;
        let ids: Vec<i32> = devices.iter().map(Device::id).collect();
        Ok(Self {
            options: CompileOptions::new(count, 1)?.with_devices(&ids)?,
            devices: devices.to_vec(),
            cache: DiskCache::of(&environment)?,
        })
    }

    /// The devices, in the order of the replicas.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Compiles a program with one replica for each device.
    ///
    /// # Errors
    ///
    /// [`moebius_pjrt::Error`] when the plugin refuses the program.
    pub fn compile(&self, program: &Program) -> Result<LoadedExecutable, moebius_pjrt::Error> {
        let client = self.devices[0].client();
        machine::compile(client, self.cache.as_ref(), &self.options, program)
    }

    /// Splits `data` into equal parts along its first dimension and copies one to each device.
    ///
    /// # Errors
    ///
    /// [`LowerError::Quantised`] for a quantised dtype, and [`RunError::Plugin`] when the number of devices doesn't divide
    /// the dimension or the plugin fails.
    pub fn divide(&self, data: &TensorData) -> Result<Vec<Buffer>, RunError> {
        let (mut ty, bytes) = (value_type(data.shape(), data.dtype())?, data.as_bytes());
        ty.shape[0] /= self.devices.len();
        let size = ty.bytes();
        let part = |(at, device)| {
            let end = if at + 1 == self.devices.len() {
                bytes.len()
            } else {
                (at + 1) * size
            };
            Buffer::from_host(device, &ty, &bytes[at * size..end])
        };
        let parts = self.devices.iter().enumerate().map(part);
        Ok(parts.collect::<Result<_, _>>()?)
    }

    /// Copies all of `data` to each device.
    ///
    /// # Errors
    ///
    /// [`LowerError::Quantised`] for a quantised dtype, and [`RunError::Plugin`] when the plugin fails.
    pub fn copy(&self, data: &TensorData) -> Result<Vec<Buffer>, RunError> {
        let (ty, bytes) = (value_type(data.shape(), data.dtype())?, data.as_bytes());
        let devices = self.devices.iter();
        let copies = devices.map(|device| Buffer::from_host(device, &ty, bytes));
        Ok(copies.collect::<Result<_, _>>()?)
    }

    /// Runs a program of this group. Each argument and each result is a list of buffers, one for each device.
    ///
    /// # Errors
    ///
    /// As for [`LoadedExecutable::execute_sharded`].
    pub fn run(
        &self,
        program: &LoadedExecutable,
        arguments: &[&[Buffer]],
    ) -> Result<Vec<Vec<Buffer>>, moebius_pjrt::Error> {
        let of_device = |at| arguments.iter().map(|argument| &argument[at]).collect();
        let lists: Vec<Vec<&Buffer>> = (0..self.devices.len()).map(of_device).collect();
        let devices = program.execute_sharded(&lists, Donate::Nothing)?;
        let mut results = vec![Vec::new(); program.outputs().len()];
        for device in devices {
            let pairs = results.iter_mut().zip(device);
            pairs.for_each(|(parts, part)| parts.push(part));
        }
        Ok(results)
    }
}

/// Reads the values of buffers, joins them along their first dimension, and waits for them.
///
/// # Errors
///
/// [`LowerError::Quantised`] for an element type that Burn doesn't have, and [`RunError::Plugin`] when the plugin
/// fails.
pub fn join(parts: &[Buffer]) -> Result<TensorData, RunError> {
    let ty = parts[0].spec();
    let dtype = crate::dtype(ty.element);
    let dtype = dtype.ok_or_else(|| LowerError::Quantised(ty.element.to_string()))?;
    let mut shape = ty.shape.clone();
    shape[0] *= parts.len();
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend(part.read()?);
    }
    Ok(TensorData::from_bytes_vec(bytes, Shape::from(shape), dtype))
}
