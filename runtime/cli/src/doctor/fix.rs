//! What to do about a device that can't be used: what to install, or which variable to set.

use std::env;

use moebius_device::{Device, OpenError, XlaPlatform};

/// Variables by which the Vulkan loader takes other drivers than those that are installed.
const DRIVERS: [&str; 2] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];

/// What to do about an error; `None` where the machine lacks the hardware.
pub(super) fn of(device: Device, error: &OpenError) -> Option<String> {
    match error {
        OpenError::NotBuilt { feature, .. } => Some(format!(
            "build or install the command with `--features {feature}`"
        )),
        OpenError::NoSuchDevice { .. } => None,
        OpenError::NoDriver { .. } => Some(install(device)),
        _ => Some(repair(device)),
    }
}

/// What to do about a device whose driver is installed and doesn't work.
pub(super) fn repair(device: Device) -> String {
    match device {
        Device::Auto | Device::Cpu | Device::Flex => {
            format!("choose another device; `moebius verify FILE… --device {device}` tells more")
        }
        Device::Xla(..) => format!(
            "install its plugin again, and look at XLA_FLAGS: {}",
            install(device)
        ),
        _ => format!(
            "update its driver or install it again, or choose another device: {}",
            install(device)
        ),
    }
}

/// What to install for a device on this system.
fn install(device: Device) -> String {
    let what = match device {
        Device::Auto | Device::Cpu | Device::Flex => "choose another device",
        Device::Wgpu(_) | Device::Vulkan(_) => return graphics(device),
        Device::Cuda(_) if cfg!(target_os = "macos") => "CUDA runs on Linux and Windows",
        Device::Cuda(_) => {
            "install NVIDIA's driver (Debian: nvidia-driver; Ubuntu: `ubuntu-drivers install`; else nvidia.com), and a CUDA toolkit or \
             `pip install nvidia-cuda-nvrtc nvidia-cuda-runtime`, whose folder CUDA_PATH names"
        }
        Device::Rocm(_) if cfg!(not(target_os = "linux")) => "ROCm runs on Linux",
        Device::Rocm(_) => {
            "install AMD's driver and ROCm 6 or newer with its headers (Debian, Ubuntu: hipcc, libamdhip64-dev, librocwmma-dev; AMD's \
             packages: rocm-hip-runtime-dev, rocwmma-dev), whose folder ROCM_PATH names"
        }
        // As in `moebius_pjrt::Platform`, which a test of this command compares with these.
        Device::Xla(XlaPlatform::Cpu, _) => {
            "`pip install xla-cpu-pjrt==0.0.1`, or name the plugin's file in MOEBIUS_PJRT_CPU"
        }
        Device::Xla(XlaPlatform::Tpu, _) => {
            "`pip install libtpu`, or name the plugin's file in MOEBIUS_PJRT_TPU"
        }
        Device::Xla(XlaPlatform::Cuda, _) => {
            "`pip install jax-cuda12-pjrt`, or name the plugin's file in MOEBIUS_PJRT_CUDA"
        }
    };
    what.to_owned()
}

/// What to install for a device of a graphics API, or which variable hides what is installed.
fn graphics(device: Device) -> String {
    let set = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let hidden: Vec<&str> = DRIVERS.into_iter().filter(set).collect();
    let install = match (device, env::consts::OS) {
        (Device::Vulkan(_), "macos") => "choose `wgpu`, which takes Metal",
        (_, "macos") => "update macOS, which has Metal",
        (_, "windows") => "install the driver of the GPU's maker",
        _ => {
            "install the GPU's Vulkan driver, or one in software (Debian, Ubuntu, Fedora: mesa-vulkan-drivers; Arch: \
             vulkan-swrast and vulkan-icd-loader)"
        }
    };
    if hidden.is_empty() {
        return install.to_owned();
    }
    let hidden = hidden.join(", ");
    format!(
        "unset {hidden} for the drivers that are installed, or name a driver's file there; or {install}"
    )
}
