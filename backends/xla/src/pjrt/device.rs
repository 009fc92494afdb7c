//! Devices, and what is known of them.

use super::client::Client;
use super::error::{Code, Error};
use super::ffi::{self, DescriptionObject, DeviceObject};
use super::plugin::Plugin;
use super::value::{self, Value};

/// What is known of a device, present or only planned for.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Its number among all devices of the platform, by which [`super::CompileOptions::with_devices`] names it.
    pub id: i32,
    /// The process that it belongs to.
    pub process_index: i32,
    /// The vendor's name for devices like it, e.g. `TPU v5 lite`.
    pub kind: String,
    /// What the plugin calls it, e.g. `TFRT_CPU_0`.
    pub name: String,
    /// Whatever else the plugin says, e.g. `coords`.
    pub attributes: Vec<(String, Value)>,
}

impl Description {
    /// # Safety
    ///
    /// `device` is a live device of the plugin.
    pub(super) unsafe fn of_device(
        plugin: Plugin,
        device: *mut DeviceObject,
    ) -> Result<Self, Error> {
        // SAFETY: the caller's promise; the description lives as long as the device.
        unsafe {
            let of = plugin.ask(ffi::DeviceGetDescription::of(device))?;
            Self::read(plugin, of.device_description)
        }
    }

    /// # Safety
    ///
    /// `object` is a live description of the plugin.
    pub(super) unsafe fn read(
        plugin: Plugin,
        object: *mut DescriptionObject,
    ) -> Result<Self, Error> {
        // SAFETY: the caller's promise, and what the description gives out lives as long as it.
        unsafe {
            let kind = plugin.ask(ffi::DeviceDescriptionKind::of(object))?;
            let name = plugin.ask(ffi::DeviceDescriptionToString::of(object))?;
            let attributes = plugin.ask(ffi::DeviceDescriptionAttributes::of(object))?;
            let process = plugin.ask(ffi::DeviceDescriptionProcessIndex::of(object))?;
            Ok(Self {
                id: plugin.ask(ffi::DeviceDescriptionId::of(object))?.id,
                process_index: process.process_index,
                kind: value::text(kind.device_kind, kind.device_kind_size),
                name: value::text(name.to_string, name.to_string_size),
                attributes: value::read(attributes.attributes, attributes.num_attributes),
            })
        }
    }
}

/// How much of a device's memory is in use, in bytes; `None` where the plugin does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// In use now.
    pub in_use: u64,
    /// The most that was in use.
    pub peak: Option<u64>,
    /// The most that may be in use.
    pub limit: Option<u64>,
    /// The largest piece that is free.
    pub largest_free: Option<u64>,
}

/// A device that this process can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    client: Client,
    index: usize,
}

impl Device {
    pub(super) fn new(client: Client, index: usize) -> Self {
        Self { client, index }
    }

    /// The client it belongs to.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Its place in [`Client::devices`].
    pub fn index(&self) -> usize {
        self.index
    }

    /// Its number among all devices of the platform.
    pub fn id(&self) -> i32 {
        self.description().id
    }

    /// The vendor's name for devices like it.
    pub fn kind(&self) -> &str {
        &self.description().kind
    }

    /// Everything that the plugin says of it.
    pub fn description(&self) -> &Description {
        self.client.description(self.index)
    }

    pub(super) fn object(&self) -> *mut DeviceObject {
        self.client.device_object(self.index)
    }

    /// How much of its memory is in use; none where the plugin does not count it, as for the CPU.
    ///
    /// # Errors
    ///
    /// The plugin's.
    pub fn memory_stats(&self) -> Result<Option<MemoryStats>, Error> {
        let stats = ffi::DeviceMemoryStats::of(self.object());
        // SAFETY: the device lives as long as its client.
        let stats = match unsafe { self.client.plugin().ask(stats) } {
            Ok(stats) => stats,
            Err(error) if error.code() == Some(Code::Unimplemented) => return Ok(None),
            Err(error) => return Err(error),
        };
        let bytes = |count: i64| u64::try_from(count).unwrap_or_default();
        let set = |count: i64, is_set: bool| is_set.then(|| bytes(count));
        Ok(Some(MemoryStats {
            in_use: bytes(stats.bytes_in_use),
            peak: set(stats.peak_bytes_in_use, stats.peak_bytes_in_use_is_set),
            limit: set(stats.bytes_limit, stats.bytes_limit_is_set),
            largest_free: set(
                stats.largest_free_block_bytes,
                stats.largest_free_block_bytes_is_set,
            ),
        }))
    }
}
