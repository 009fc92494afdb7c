//! Hardware that the PCI bus shows, and a setting that libtpu needs on machines without a TPU.

use std::fs;
use std::path::Path;

/// The PCI vendor ID of TPUs.
const GOOGLE: &str = "0x1ae0";
/// The PCI device IDs of TPUs, as JAX 0.10.2 lists them: v3, v4, v5p, v5e, v6e, 7x.
const TPUS: &[&str] = &["0x0027", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076"];

/// The environment variable that keeps libtpu from asking a cloud's metadata server, which it does 30 times for each
/// key.
const SKIP_METADATA: &str = "TPU_SKIP_MDS_QUERY";

/// Whether `/sys/bus/pci/devices`, or the folder in its place, shows a TPU.
pub(crate) fn has_tpu(pci_devices: &Path) -> bool {
    any(pci_devices, |says| {
        says("vendor") == GOOGLE && TPUS.contains(&says("device").as_str())
    })
}

/// Whether the PCI bus shows an NVIDIA GPU. The PCI class must be that of displays: the company makes network cards,
/// too.
pub(crate) fn has_nvidia(pci_devices: &Path) -> bool {
    any(pci_devices, |says| {
        says("vendor") == "0x10de" && says("class").starts_with("0x03")
    })
}

/// Whether a PCI device satisfies `wanted`, which reads the device's files by name.
fn any(pci_devices: &Path, wanted: impl Fn(&dyn Fn(&str) -> String) -> bool) -> bool {
    let Ok(devices) = pci_devices.read_dir() else {
        return false;
    };
    devices.flatten().any(|device| {
        wanted(&|file| {
            let text = fs::read_to_string(device.path().join(file));
            text.unwrap_or_default().trim().to_owned()
        })
    })
}

/// Makes libtpu fail at once on a machine without a TPU, where it would search for minutes.
pub(crate) fn prepare_libtpu(pci_devices: &Path) {
    if has_tpu(pci_devices) {
        return;
    }
    // SAFETY: Rust's own access to the environment is serialised by the standard library. This runs at most once for a
    // file of libtpu, under the lock of `Plugin::load`, before libtpu and its threads exist. What remains are other
    // threads that read the environment through C at this moment; `Plugin::load` tells such programs to set the variable
    // first, and then this line is not reached.
    unsafe { std::env::set_var(SKIP_METADATA, "1") };
}

#[cfg(test)]
#[path = "hardware_tests.rs"]
mod tests;
