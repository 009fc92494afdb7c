//! Topologies: devices to compile for that need not be present.

use std::sync::Arc;

use crate::client::Description;
use crate::compile::{CompileOptions, count_compiled, with_program};
use crate::error::Error;
use crate::executable::Executable;
use crate::ffi;
use crate::locate::Platform;
use crate::plugin::{Owned, Plugin};
use crate::value::{self, Value};

/// Devices and their connections, to compile for; none of them need be present.
#[derive(Clone, Debug)]
pub struct Topology {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    object: Owned<ffi::TopologyDescriptionDestroy>,
    platform_name: String,
    platform_version: String,
    devices: Vec<Description>,
}

impl Topology {
    /// Asks the plugin for the topology `name`, e.g. `v5e:2x2` of libtpu, with the plugin's own options.
    ///
    /// # Errors
    ///
    /// [`Error::Topology`] for sizes that would end the process, [`Error::ClientOption`] for an option that can't be
    /// passed on, [`Error::NoDevices`] for a topology without devices, and [`Error::Plugin`], e.g. for an unknown name.
    pub fn create(plugin: Plugin, name: &str, options: &[(&str, Value)]) -> Result<Self, Error> {
        if plugin.platform() == Platform::Tpu {
            check_size(name, options)?;
        }
        let options = value::write(options)?;
        let mut create = ffi::TopologyDescriptionCreate::of(name.as_ptr().cast());
        create.topology_name_size = name.len();
        create.create_options = options.as_ptr();
        create.num_options = options.len();
        // SAFETY: the name and the options live until the call returns. The topology is ours, and its executables hold it.
        let object = unsafe { Owned::new(plugin, plugin.ask(create)?.topology) };
        let inner = Inner::of(object)?;
        if inner.devices.is_empty() {
            let platform = inner.platform_name;
            return Err(Error::NoDevices(platform));
        }
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The platform's name, e.g. `tpu`.
    pub fn platform_name(&self) -> &str {
        &self.inner.platform_name
    }

    /// The platform's version, as the plugin words it for people.
    pub fn platform_version(&self) -> &str {
        &self.inner.platform_version
    }

    /// The devices of the topology.
    pub fn devices(&self) -> &[Description] {
        &self.inner.devices
    }

    /// Compiles a program in StableHLO text. If `options` names no devices, the program is for the first ones of the
    /// topology.
    ///
    /// # Errors
    ///
    /// [`Error::CompileOptions`] when the topology has too few devices, and [`Error::Plugin`] with the line of a
    /// mistake in the text, or with [`crate::Code::ResourceExhausted`] for a program that doesn't fit in the devices'
    /// memory.
    pub fn compile(&self, text: &str, options: &CompileOptions) -> Result<Executable, Error> {
        let options = self.assign(options)?;
        let plugin = self.inner.object.plugin();
        let options = options.to_bytes_for(plugin.platform());
        with_program(text, |program| {
            let mut compile = ffi::Compile::of(self.inner.object.get());
            compile.program = program;
            compile.compile_options = options.as_ptr().cast();
            compile.compile_options_size = options.len();
            // SAFETY: the topology is alive, the program and the options live until the call returns, and no client is
            // needed. The executable is ours.
            unsafe {
                let object = Owned::new(plugin, plugin.ask(compile)?.executable);
                count_compiled();
                let name = self.inner.platform_name.clone();
                Ok(Executable::new(object, name, self.clone()))
            }
        })
    }

    /// Names devices in `options` if it names none: there is no client to choose them.
    fn assign(&self, options: &CompileOptions) -> Result<CompileOptions, Error> {
        if options.devices().is_some() {
            return Ok(options.clone());
        }
        let count = options.device_count();
        let mut ids: Vec<i32> = self.inner.devices.iter().map(|device| device.id).collect();
        if ids.len() < count {
            let there = ids.len();
            return Err(Error::CompileOptions(format!(
                "{count} devices are needed, the topology has {there}"
            )));
        }
        ids.sort_unstable();
        options.clone().with_devices(&ids[..count])
    }
}

/// Refuses sizes that make libtpu end the process: it divides by each extent in the name, and sets up every device of
/// every slice before it reports that they are too many.
fn check_size(name: &str, options: &[(&str, Value)]) -> Result<(), Error> {
    let written = name;
    let refuse = |reason| Err(Error::Topology(format!("{written:?}: {reason}")));
    let mut twists = ["_twisted", "_untwisted"].iter();
    let name = twists
        .find_map(|twist| name.strip_suffix(twist))
        .unwrap_or(name);
    let Some((_, size)) = name.rsplit_once([':', '=', '_']) else {
        return refuse("is not of the form kind:size");
    };
    let extents = size
        .split('x')
        .map(|extent| extent.parse::<usize>().unwrap_or_default());
    let slices = options.iter().find_map(|(name, value)| match value {
        Value::Int(count) if *name == "num_slices" => Some(*count),
        _ => None,
    });
    let slices = slices.unwrap_or(1);
    if extents.clone().any(|extent| extent == 0) || slices < 1 {
        return refuse("the size is not whole numbers from 1, with x between them");
    }
    let slices = usize::try_from(slices).unwrap_or(usize::MAX);
    let count = extents.fold(slices, usize::saturating_mul);
    if count > CompileOptions::MAX_DEVICES {
        return refuse("more devices than a program can be compiled for");
    }
    Ok(())
}

impl Inner {
    /// Asks the plugin for everything that does not change during the topology's life.
    fn of(object: Owned<ffi::TopologyDescriptionDestroy>) -> Result<Self, Error> {
        // SAFETY: the topology is alive, and what it gives out lives as long as it.
        unsafe {
            let name = object.ask(|it| ffi::TopologyDescriptionPlatformName::of(it))?;
            let version = object.ask(ffi::TopologyDescriptionPlatformVersion::of)?;
            let list = object.ask(|it| ffi::TopologyDescriptionGetDeviceDescriptions::of(it))?;
            let devices = value::slice(list.descriptions, list.num_descriptions);
            let described = |&device| Description::read(object.plugin(), device);
            Ok(Self {
                platform_name: value::text(name.platform_name, name.platform_name_size),
                platform_version: value::text(
                    version.platform_version,
                    version.platform_version_size,
                ),
                devices: devices
                    .iter()
                    .map(described)
                    .collect::<Result<_, Error>>()?,
                object,
            })
        }
    }
}

#[cfg(test)]
#[path = "topology_tests.rs"]
mod tests;
