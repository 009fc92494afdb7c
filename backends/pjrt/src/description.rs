//! What is known of a device.

use crate::error::Error;
use crate::ffi::{self, DescriptionObject, DeviceObject};
use crate::plugin::Plugin;
use crate::value::{self, Value};

/// What is known of a device, present or only planned for.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Its number among all devices of the platform, by which [`crate::CompileOptions::with_devices`] names it.
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
    pub(crate) unsafe fn of_device(
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
    pub(crate) unsafe fn read(
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
