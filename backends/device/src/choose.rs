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
#[path = "choose_tests.rs"]
mod tests;
