//! AMD GPUs, as HIP lists them.

use std::fs;
use std::process::Command;
use std::sync::OnceLock;

use cubecl::device::AmdDevice;
use cubecl::ir::{DeviceProperties, PciAddress};

use crate::guard::quietly;
use crate::located::{Found, Located, index_among};
use crate::{Capability, Device, MemoryFigures, OpenError};

/// Lists every HIP GPU. This starts each GPU's runtime, since HIP describes a device nowhere else.
pub(crate) fn list(runtime: Device) -> Result<Vec<Found>, OpenError> {
    let found = (0..).take(count(runtime)?).map(|index| Found {
        device: runtime.at(index),
        status: located(runtime.at(index), index).capability(),
    });
    Ok(found.collect())
}

pub(crate) fn locate(device: Device) -> Result<Located, OpenError> {
    let index = index_among(device, count(device)?)?;
    Ok(located(device.at(index), index))
}

fn located(device: Device, index: u32) -> Located {
    Located {
        device,
        cubecl: Some(cubecl::Device::Hip(AmdDevice::new(index as usize))),
        known: None,
    }
}

/// Adds the driver's version and the memory figures that the kernel's driver keeps for the card's PCI address (Linux).
pub(crate) fn complete(capability: Capability, properties: &DeviceProperties) -> Capability {
    let capability = Capability {
        driver: driver(),
        ..capability
    };
    let card = properties.identity.physical.as_ref();
    match card.and_then(|card| card.pci_address).and_then(memory) {
        Some(memory) => Capability {
            memory: Some(memory),
            ..capability
        },
        None => capability,
    }
}

/// The bytes that the driver has free on the card with these properties (Linux).
pub(crate) fn free(properties: &DeviceProperties) -> Option<u64> {
    let card = properties.identity.physical.as_ref()?;
    memory(card.pci_address?)?.free
}

/// The versions of the kernel's driver and of ROCm, if they are installed in the usual places (Linux).
fn driver() -> Option<String> {
    let rocm = fs::read_to_string("/opt/rocm/.info/version").ok();
    let rocm = rocm.map(|version| format!("ROCm {}", version.trim()));
    let module = crate::memory::driver_module("amdgpu");
    let words: Vec<String> = module.into_iter().chain(rocm).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

fn memory(address: PciAddress) -> Option<MemoryFigures> {
    let read = |name: &str| -> Option<u64> {
        let path = format!("/sys/bus/pci/devices/{address}/mem_info_vram_{name}");
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    let total = read("total")?;
    Some(MemoryFigures {
        total,
        free: Some(total.saturating_sub(read("used")?)),
    })
}

/// The number of GPUs: at least one, or an error. CubeCL counts them, because it checks for the libraries before
/// calling them.
fn count(device: Device) -> Result<usize, OpenError> {
    let any = cubecl::Device::Hip(AmdDevice::default()).to_id();
    let count = quietly(|| cubecl::Device::enumerate(any).len())
        .map_err(|reason| OpenError::Failed { device, reason })?;
    if count > 0 {
        return match kernel_compiler() {
            Ok(()) => Ok(count),
            Err(reason) => Err(OpenError::NoDriver {
                device,
                library: "ROCm's development files (hipconfig, and the headers that it names)",
                reason,
            }),
        };
    }
    Err(OpenError::NoDriver {
        device,
        library: "ROCm (libamdhip64, libhiprtc)",
        reason: "libamdhip64 or libhiprtc could not be loaded, or HIP shows no GPU".to_owned(),
    })
}

/// Checks that kernels can be compiled: CubeCL asks `hipconfig` for the headers, and every launch fails without an
/// answer. The error says what is missing.
fn kernel_compiler() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    let ask = || {
        let answer = Command::new("hipconfig").arg("-p").output();
        let answer = answer.map_err(|error| format!("`hipconfig` can't be run: {error}"))?;
        let complaint = String::from_utf8_lossy(&answer.stderr);
        // CubeCL panics at any output on `hipconfig`'s standard error.
        match complaint.trim() {
            "" => Ok(()),
            complaint => Err(format!("`hipconfig -p` complains: {complaint}")),
        }
    };
    ANSWER.get_or_init(ask).clone()
}
