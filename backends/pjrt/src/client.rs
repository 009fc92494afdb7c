//! A client of a plugin, its devices, and their descriptions.

use std::sync::Arc;

use crate::error::Error;
use crate::ffi::{self, ClientObject, DescriptionObject, DeviceObject};
use crate::plugin::{Owned, Plugin};
use crate::value::{self, Value};

/// A client of a plugin, which has devices and compiles programs for them. Clones share the client; it lives until its
/// last clone, buffer, executable and event are dropped.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    object: Owned<ffi::ClientDestroy>,
    platform_name: String,
    platform_version: String,
    process_index: i32,
    devices: Vec<(*mut DeviceObject, Description)>,
}

// SAFETY: devices of the C API may be used from any thread, several at a time; the rest is so by itself.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl PartialEq for Client {
    /// Whether both are the same client, rather than two clients of one plugin.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Client {}

impl Client {
    /// Creates a client with the plugin's own options, e.g. `cpu_device_count` of the CPU plugin.
    ///
    /// # Errors
    ///
    /// [`Error::ClientOption`] for an option that can't be passed on, [`Error::NoDevices`] when the client has no
    /// device that this process can use, and [`Error::Plugin`], e.g. when there is no TPU.
    pub fn new(plugin: Plugin, options: &[(&str, Value)]) -> Result<Self, Error> {
        for (name, value) in options {
            // The CPU plugin takes a negative number as an unsigned size and ends the process.
            if *name == "cpu_device_count" && !matches!(value, Value::Int(1..=4096)) {
                let reason = "must be a whole number from 1 to 4096";
                return Err(Error::ClientOption(format!("{name:?}: {reason}")));
            }
        }
        let options = value::write(options)?;
        let mut create = ffi::ClientCreate::of(options.as_ptr());
        create.num_options = options.len();
        // SAFETY: the options live until the call returns; callbacks may be null where there is one process. The client is
        // ours, and everything of it holds it.
        let object = unsafe { Owned::new(plugin, plugin.ask(create)?.client) };
        let inner = Inner::of(object)?;
        if inner.devices.is_empty() {
            let platform = inner.platform_name;
            return Err(Error::NoDevices(platform));
        }
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The plugin that the client belongs to.
    pub fn plugin(&self) -> Plugin {
        self.inner.object.plugin()
    }

    pub(crate) fn object(&self) -> *mut ClientObject {
        self.inner.object.get()
    }

    /// The platform's name, e.g. `cpu` or `tpu`.
    pub fn platform_name(&self) -> &str {
        &self.inner.platform_name
    }

    /// The platform's version, as the plugin words it for people.
    pub fn platform_version(&self) -> &str {
        &self.inner.platform_version
    }

    /// The index of this process among those that share the devices; 0 for a single process.
    pub fn process_index(&self) -> i32 {
        self.inner.process_index
    }

    /// The devices that this process can use; at least one.
    pub fn devices(&self) -> Vec<Device> {
        let device = |index| Device::new(self.clone(), index);
        (0..self.inner.devices.len()).map(device).collect()
    }

    /// The device at `index` in [`Self::devices`].
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchDevice`] when there are fewer devices.
    pub fn device(&self, index: usize) -> Result<Device, Error> {
        let count = self.inner.devices.len();
        if index < count {
            Ok(Device::new(self.clone(), index))
        } else {
            Err(Error::NoSuchDevice { index, count })
        }
    }

    pub(crate) fn device_object(&self, index: usize) -> *mut DeviceObject {
        self.inner.devices[index].0
    }

    pub(crate) fn description(&self, index: usize) -> &Description {
        &self.inner.devices[index].1
    }

    /// The index of a device in [`Self::devices`].
    pub(crate) fn device_index(&self, object: *mut DeviceObject) -> Option<usize> {
        let mut devices = self.inner.devices.iter();
        devices.position(|(device, _)| *device == object)
    }
}

impl Inner {
    /// Asks the plugin for everything that does not change during the client's life.
    fn of(object: Owned<ffi::ClientDestroy>) -> Result<Self, Error> {
        // SAFETY: the client is alive, and what it gives out lives as long as it.
        unsafe {
            let name = object.ask(ffi::ClientPlatformName::of)?;
            let version = object.ask(ffi::ClientPlatformVersion::of)?;
            let list = object.ask(ffi::ClientAddressableDevices::of)?;
            let devices = value::slice(list.addressable_devices, list.num_addressable_devices);
            let described =
                |&device| Ok((device, Description::of_device(object.plugin(), device)?));
            Ok(Self {
                platform_name: value::text(name.platform_name, name.platform_name_size),
                platform_version: value::text(
                    version.platform_version,
                    version.platform_version_size,
                ),
                process_index: object.ask(ffi::ClientProcessIndex::of)?.process_index,
                devices: devices
                    .iter()
                    .map(described)
                    .collect::<Result<_, Error>>()?,
                object,
            })
        }
    }
}

/// A device that this process can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    client: Client,
    index: usize,
}

impl Device {
    pub(crate) fn new(client: Client, index: usize) -> Self {
        Self { client, index }
    }

    /// The client that the device belongs to.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The device's index in [`Client::devices`].
    pub fn index(&self) -> usize {
        self.index
    }

    /// The device's number among all devices of the platform.
    pub fn id(&self) -> i32 {
        self.description().id
    }

    /// The vendor's name for this kind of device.
    pub fn kind(&self) -> &str {
        &self.description().kind
    }

    /// Everything that the plugin says about the device.
    pub fn description(&self) -> &Description {
        self.client.description(self.index)
    }

    pub(crate) fn object(&self) -> *mut DeviceObject {
        self.client.device_object(self.index)
    }
}

/// What a plugin says about a device, present or part of a [`crate::Topology`].
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// The device's number among all devices of the platform, by which [`crate::CompileOptions::with_devices`] names
    /// it.
    pub id: i32,
    /// The index of the process that the device belongs to.
    pub process_index: i32,
    /// The vendor's name for this kind of device, e.g. `TPU v5 lite`.
    pub kind: String,
    /// The plugin's name for the device, e.g. `TFRT_CPU_0`.
    pub name: String,
    /// Further attributes that the plugin gives, e.g. `coords`.
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
