//! What `auto` means.

use crate::{Capability, Device, DeviceKind, Found, OpenError, Platform};

/// The device `auto` stands for, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Never [`Device::Auto`].
    pub device: Device,
    /// One sentence: what was chosen, why, and what was passed over.
    pub reason: String,
}

/// The best usable device of `found`, by a fixed order and without looking at the machine:
///
/// 1. a real GPU: discrete, then integrated, virtual, unclassified; the same kind by the runtime
///    that serves it best: `cuda`, `rocm`, `vulkan`, `wgpu`;
/// 2. the processor: `cpu`, then `flex`;
/// 3. a software graphics adapter (lavapipe, SwiftShader, WARP): the processor again, by a slower
///    way.
///
/// Among equals the first of `found` wins.
///
/// # Errors
///
/// [`OpenError::NoSuchDevice`] for `auto` when no device of `found` is usable.
pub fn choose(found: &[Found]) -> Result<Choice, OpenError> {
    let mut usable: Vec<(Rank, Device, &Capability)> = found
        .iter()
        .filter_map(|found| {
            let capability = found.status.as_ref().ok()?;
            Some((rank(found.device, capability), found.device, capability))
        })
        .collect();
    // Stable, so that equals keep their order.
    usable.sort_by_key(|(rank, ..)| *rank);
    let [(rank, device, capability), others @ ..] = usable.as_slice() else {
        return Err(OpenError::NoSuchDevice {
            device: Device::Auto,
            available: Vec::new(),
        });
    };
    Ok(Choice {
        device: *device,
        reason: format!(
            "{device} ({}) is {}; passed over {}",
            capability.name,
            rank.why(capability.kind),
            passed_over(others, found)
        ),
    })
}

/// Smaller is better: what sort of path it is, then how well the runtime serves it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    path: Path,
    runtime: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Path {
    DiscreteGpu,
    IntegratedGpu,
    VirtualGpu,
    UnknownGpu,
    Processor,
    SoftwareAdapter,
}

fn rank(device: Device, capability: &Capability) -> Rank {
    let processor = matches!(
        device,
        Device::Cpu | Device::Flex | Device::Xla(Platform::Cpu, _)
    );
    Rank {
        path: match capability.kind {
            _ if processor => Path::Processor,
            DeviceKind::DiscreteGpu => Path::DiscreteGpu,
            DeviceKind::IntegratedGpu => Path::IntegratedGpu,
            DeviceKind::VirtualGpu => Path::VirtualGpu,
            DeviceKind::Unknown => Path::UnknownGpu,
            DeviceKind::Cpu => Path::SoftwareAdapter,
        },
        runtime: match device {
            Device::Cuda(_) => 0,
            Device::Rocm(_) => 1,
            Device::Vulkan(_) => 2,
            Device::Wgpu(_) => 3,
            Device::Cpu => 4,
            Device::Flex => 5,
            Device::Xla(..) => 6,
            Device::Auto => 7,
        },
    }
}

impl Rank {
    fn why(self, kind: DeviceKind) -> String {
        match self.path {
            Path::Processor => "the fastest way to the processor, as there is no GPU".to_owned(),
            Path::SoftwareAdapter => {
                "a software adapter, as there is no GPU and no CPU runtime in this build".to_owned()
            }
            Path::UnknownGpu => format!("the best accelerator found, an {kind}"),
            Path::IntegratedGpu => format!("the best GPU found, an {kind}"),
            _ => format!("the best GPU found, a {kind}"),
        }
    }
}

fn passed_over(usable: &[(Rank, Device, &Capability)], found: &[Found]) -> String {
    let slower = usable.iter().map(|(_, device, _)| device.to_string());
    let unusable = found.iter().filter_map(|found| {
        let why = match found.status.as_ref().err()? {
            OpenError::NotBuilt { .. } => "not built in",
            OpenError::NoDriver { .. } => "no driver",
            OpenError::NoSuchDevice { .. } => "not there",
            OpenError::Failed { .. } => "failed",
            OpenError::WrongResults { .. } => "computes wrong results",
        };
        Some(format!("{} ({why})", found.device))
    });
    let all: Vec<_> = slower.chain(unusable).collect();
    if all.is_empty() {
        "nothing".to_owned()
    } else {
        all.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiles;

    fn found(device: &str, capability: Capability) -> Found {
        Found {
            device: device.parse().unwrap(),
            status: Ok(capability),
        }
    }

    fn not_built(name: &str) -> Found {
        let device: Device = name.parse().unwrap();
        Found {
            device,
            status: Err(OpenError::NotBuilt {
                device,
                feature: device.feature(),
            }),
        }
    }

    fn chosen(found: &[Found]) -> String {
        choose(found).unwrap().device.to_string()
    }

    #[test]
    fn cuda_serves_an_h100_better_than_vulkan() {
        let found = [
            found("flex", profiles::cpu_4core_avx2()),
            found("wgpu:0", profiles::h100()),
            found("vulkan:0", profiles::h100()),
            found("cuda:0", profiles::h100()),
            found("cuda:1", profiles::h100()),
            not_built("rocm"),
        ];
        let choice = choose(&found).unwrap();
        assert_eq!(choice.device, Device::Cuda(Some(0)));
        assert_eq!(
            choice.reason,
            "cuda:0 (NVIDIA H100 80GB HBM3) is the best GPU found, a discrete GPU; \
             passed over cuda:1, vulkan:0, wgpu:0, flex, rocm (not built in)"
        );
    }

    #[test]
    fn a_discrete_gpu_beats_an_integrated_one_on_any_runtime() {
        let mut jetson = profiles::h100();
        jetson.kind = DeviceKind::IntegratedGpu;
        let found = [
            found("cuda:0", jetson),
            found("wgpu:0", profiles::rdna4()),
            found("cpu", profiles::cpu_4core_avx2()),
        ];
        assert_eq!(chosen(&found), "wgpu:0");
    }

    #[test]
    fn apple_runs_on_wgpu() {
        let found = [
            not_built("cuda"),
            found("wgpu:0", profiles::apple_m()),
            found("cpu", profiles::cpu_neon()),
            found("flex", profiles::cpu_neon()),
        ];
        assert_eq!(chosen(&found), "wgpu:0");
    }

    #[test]
    fn a_software_adapter_is_the_last_resort() {
        let lavapipe = || found("wgpu:0", profiles::lavapipe());
        let cpu = || found("cpu", profiles::cpu_2core_avx512());
        let flex = || found("flex", profiles::cpu_2core_avx512());
        assert_eq!(chosen(&[lavapipe(), flex(), cpu()]), "cpu");
        assert_eq!(chosen(&[lavapipe(), flex()]), "flex");
        let choice = choose(&[lavapipe(), not_built("flex")]).unwrap();
        assert_eq!(choice.device, Device::Wgpu(Some(0)));
        assert!(
            choice.reason.contains("software adapter"),
            "{}",
            choice.reason
        );
    }

    #[test]
    fn one_device_is_enough_and_none_is_an_error() {
        let choice = choose(&[found("flex", profiles::cpu_neon())]).unwrap();
        assert_eq!(choice.device, Device::Flex);
        assert!(
            choice.reason.ends_with("passed over nothing"),
            "{}",
            choice.reason
        );

        let error = choose(&[not_built("cuda"), not_built("flex")]).unwrap_err();
        assert!(matches!(
            error,
            OpenError::NoSuchDevice {
                device: Device::Auto,
                ..
            }
        ));
        assert_eq!(choose(&[]).unwrap_err(), error);
    }
}
