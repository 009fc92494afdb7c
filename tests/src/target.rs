//! The devices that tests run on, each opened once.

use crate::tolerance::{assert_close, rel_l2};
use cubecl::client::Client;
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::{Capability, Device, Runtime};
use moebius_ops::Element;
use moebius_pjrt::{Environment, Error, Platform, Plugin};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A device under test.
pub struct Target {
    /// The device's name in test names: `cpu`, `wgpu`, `flex`, ...
    pub name: &'static str,
    capability: Capability,
    client: Option<Client>,
    /// Burn's device; `None` if Burn doesn't know the device.
    device: Option<Device>,
    turn: Mutex<()>,
}

impl Target {
    /// Every device of this run: by default the CubeCL CPU, the best wgpu adapter, Flex and XLA on the processor, else those
    /// that `MOEBIUS_TEST_DEVICES` names, such as `cuda` or `msl`, Metal's language on the emulator.
    ///
    /// # Panics
    /// When a device can't be opened: a required device that doesn't run is a failure.
    pub fn all() -> &'static [Target] {
        static ALL: OnceLock<Vec<Target>> = OnceLock::new();
        ALL.get_or_init(|| {
            let names =
                std::env::var("MOEBIUS_TEST_DEVICES").unwrap_or("cpu,wgpu,flex,xla:cpu".into());
            names
                .split(',')
                .map(|name| Self::open(name.to_string().leak()))
                .collect()
        })
    }

    fn open(name: &'static str) -> Self {
        let turn = Mutex::new(());
        #[cfg(all(
            target_os = "linux",
            any(target_arch = "x86_64", target_arch = "aarch64")
        ))]
        if name == crate::availability::METAL {
            let (client, capability) = crate::metal::open();
            return Self {
                name,
                capability,
                client: Some(client),
                device: None,
                turn,
            };
        }
        let device: Device = name.parse().unwrap_or_else(|error| panic!("{error}"));
        let opened = moebius_device::open(&device).unwrap_or_else(|error| panic!("{error}"));
        Self {
            name,
            client: opened.client(),
            capability: opened.capability,
            device: Some(opened.device),
            turn,
        }
    }

    /// Locks the device for one test at a time, among the tests that ask for it: a seed affects the whole device.
    pub fn alone(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Burn's device; panics if Burn doesn't know the target.
    pub fn burn(&self) -> burn::tensor::Device {
        let Some(device) = &self.device else {
            panic!("Burn doesn't know `{}`", self.name);
        };
        moebius::open(device).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Seeds Burn's random values, if Burn knows the target.
    pub fn seed(&self, seed: u64) {
        if self.device.is_some() {
            self.burn().seed(seed);
        }
    }

    /// Waits for all operations that Burn has submitted.
    ///
    /// # Errors
    /// The device's failure.
    pub fn sync(&self) -> Result<(), String> {
        match &self.device {
            Some(_) => self.burn().sync().map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    /// The device's capability.
    pub fn capability(&self) -> &Capability {
        &self.capability
    }

    /// Asserts that rows computed beside other rows, or in another program, have the same bits. On XLA close values suffice:
    /// its order of summation depends on a product's shape, and its intermediate roundings on the whole program.
    pub fn assert_same_rows(&self, what: &str, got: &[f32], want: &[f32]) {
        if self.capability().runtime != Runtime::Xla {
            assert!(got == want, "{what} differ: {got:?} instead of {want:?}");
            return;
        }
        let want: Vec<f64> = want.iter().map(|value| f64::from(*value)).collect();
        assert_close(what, got, &want, rel_l2(Element::F32));
    }

    /// A CubeCL client; `None` on Flex and XLA, which don't run CubeCL kernels.
    pub fn client(&self) -> Option<Client> {
        self.client.clone()
    }
}

/// Uploads these words to a buffer.
pub fn upload_u32(client: &Client, words: &[u32]) -> Handle {
    client.create_from_slice(u32::as_bytes(words))
}

/// Uploads these floats to a buffer.
pub fn upload_f32(client: &Client, values: &[f32]) -> Handle {
    client.create_from_slice(f32::as_bytes(values))
}

/// A buffer of `len` words filled with bytes 0xAA: an output that the kernel must overwrite.
pub fn poisoned(client: &Client, len: usize) -> Handle {
    upload_u32(client, &vec![0xAAAA_AAAA; len.max(1)])
}

/// A buffer of `len` NaN floats: an output that the kernel must overwrite.
pub fn nans(client: &Client, len: usize) -> Handle {
    upload_f32(client, &vec![f32::NAN; len.max(1)])
}

/// Reads the first `len` words of a buffer, after the device has finished.
pub fn download_u32(client: &Client, buffer: Handle, len: usize) -> Vec<u32> {
    let bytes = client
        .read_one(buffer)
        .unwrap_or_else(|error| panic!("{error}"));
    u32::from_bytes(&bytes)[..len].to_vec()
}

/// Reads the first `len` floats of a buffer, after the device has finished.
pub fn download_f32(client: &Client, buffer: Handle, len: usize) -> Vec<f32> {
    let bytes = client
        .read_one(buffer)
        .unwrap_or_else(|error| panic!("{error}"));
    f32::from_bytes(&bytes)[..len].to_vec()
}

/// Loads libtpu's plugin, which isn't free software and not installed everywhere; prints a note and returns `None` without libtpu.
///
/// # Panics
/// When libtpu is installed, or requested by its path, but can't be loaded.
pub fn libtpu() -> Option<Plugin> {
    match Plugin::open(Platform::Tpu, &Environment::from_process()) {
        Ok(plugin) => Some(plugin),
        Err(Error::NotFound(reason)) if reason.named_by.is_none() => {
            println!("not run: {reason}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
