//! The choice of a device for `auto`.

use crate::{Capability, Device, DeviceKind, Found, OpenError, XlaPlatform};

/// The device that `auto` stands for, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The chosen device; never [`Device::Auto`].
    pub device: Device,
    /// One sentence: what was chosen, why, and what was passed over.
    pub reason: String,
}

/// The work that a device is chosen for; it decides which CPU runtime is faster.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Work {
    /// A few large products, or unknown work.
    #[default]
    Products,
    /// Training steps.
    Steps {
        /// Floating-point operations of one step, forward and backward passes together.
        flops: f64,
    },
    /// Tokens of a language model, generated one after the other: each takes hundreds of small operations, as a small
    /// training step does.
    Tokens,
}

/// The number of floating-point operations below which a step is faster on `flex`: `cpu` has the faster products, but
/// launches kernels for hundreds of tiny operations. Measured: benches/RESULTS.md, machine C.
const SMALL_STEP: f64 = 40e9;

impl Work {
    fn is_small(self) -> bool {
        match self {
            Self::Products => false,
            Self::Steps { flops } => flops < SMALL_STEP,
            Self::Tokens => true,
        }
    }
}

/// Chooses a device for unknown work, with [`choose_for`].
///
/// # Errors
///
/// As for [`choose_for`].
pub fn choose(found: &[Found]) -> Result<Choice, OpenError> {
    choose_for(Work::default(), found)
}

/// Chooses the best usable device of `found` for `work`, by a fixed order and without looking at the machine:
///
/// 1. a real GPU: discrete, then integrated, virtual, unclassified; the same kind by the runtime
///    that serves it best: `cuda`, `rocm`, `vulkan`, `wgpu`;
/// 2. the processor: `cpu`, then `flex`; for small steps of a training `flex`, then `cpu`;
/// 3. a software graphics adapter (lavapipe, SwiftShader, WARP): the processor again, by a slower
///    way.
///
/// Among equals the first in `found` wins.
///
/// # Errors
///
/// [`OpenError::NoSuchDevice`] for `auto` when no device of `found` is usable.
pub fn choose_for(work: Work, found: &[Found]) -> Result<Choice, OpenError> {
    let mut usable: Vec<(Rank, Device, &Capability)> = found
        .iter()
        .filter_map(|found| {
            let capability = found.status.as_ref().ok()?;
            Some((
                rank(work, found.device, capability),
                found.device,
                capability,
            ))
        })
        .collect();
    // The sort is stable: equals keep their order.
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
            why(work, *rank),
            passed_over(others, found)
        ),
    })
}

/// A device's rank, where smaller is better: its kind; whether it is a software adapter, which comes after the
/// processor itself; and how well the runtime serves it.
type Rank = (DeviceKind, bool, usize);

/// The names of runtimes, from the one that serves a device best.
const SERVED: [&str; 6] = ["cuda", "rocm", "vulkan", "wgpu", "cpu", "flex"];

fn rank(work: Work, device: Device, capability: &Capability) -> Rank {
    let runtime = match device {
        Device::Flex if work.is_small() => Some(0),
        _ => SERVED.iter().position(|name| *name == device.name()),
    };
    let runtime = runtime.unwrap_or(SERVED.len());
    match device {
        Device::Cpu | Device::Flex | Device::Xla(XlaPlatform::Cpu, _) => {
            (DeviceKind::Cpu, false, runtime)
        }
        _ => (capability.kind, capability.is_cpu(), runtime),
    }
}

fn why(work: Work, (kind, software, _): Rank) -> String {
    match kind {
        DeviceKind::Cpu if software => {
            "a software adapter, as there is no GPU and no CPU runtime in this build".to_owned()
        }
        DeviceKind::Cpu if work.is_small() => {
            "the fastest way to the processor for steps as small, as there is no GPU".to_owned()
        }
        DeviceKind::Cpu => "the fastest way to the processor, as there is no GPU".to_owned(),
        DeviceKind::Unknown => format!("the best accelerator found, an {kind}"),
        DeviceKind::IntegratedGpu => format!("the best GPU found, an {kind}"),
        _ => format!("the best GPU found, a {kind}"),
    }
}

fn passed_over(usable: &[(Rank, Device, &Capability)], found: &[Found]) -> String {
    let slower = usable.iter().map(|(_, device, _)| device.to_string());
    let unusable = found.iter().filter_map(|found| {
        let why = match found.status.as_ref().err()? {
            OpenError::NotBuilt { .. } => "not built in",
            OpenError::NoDriver { .. } => "no driver",
            OpenError::NoSuchDevice { .. } => "not there",
            OpenError::Unfit { .. } => "unfit",
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
