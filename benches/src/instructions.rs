//! Which vector instructions a benchmark ran with, and where it can't be held to fewer.

use crate::BenchError;
use moebius_device::{Capability, Device, XlaPlatform};
use moebius_host::{Simd, simd};

/// Why a device can't be held to fewer vector instructions than the processor has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{device} can't be held to {held} on a processor with {widest}: {reason}")]
pub struct HeldError {
    /// The device.
    pub device: Device,
    /// What was asked for.
    pub held: Simd,
    /// What there is.
    pub widest: Simd,
    /// What takes more than was asked for.
    pub reason: &'static str,
}

const CPU: &str =
    "CubeCL compiles its kernels for all that LLVM finds in it, and no option changes that";
const FLEX: &str = "Burn's own products take AVX-512; build without the cargo feature x86-v4";
const FLEX_BELOW: &str = "Burn's own products take AVX2 or NEON, and no option changes that";
const XLA: &str =
    "XLA reads its own variable, set XLA_FLAGS=--xla_cpu_max_isa=AVX2 and ask for avx2";
const SOFTWARE: &str = "its driver compiles for all that it finds in it";

/// XLA's flag for AVX2.
const XLA_AVX2: &str = "--xla_cpu_max_isa=AVX2";

/// What code for a device uses of the processor; `None` where none of it computes, or it isn't known.
///
/// # Errors
/// [`HeldError`] where the process is held to fewer vector instructions than the device takes.
pub fn instructions(device: &Device, capability: &Capability) -> Result<Option<Simd>, HeldError> {
    let flags = std::env::var("XLA_FLAGS").unwrap_or_default();
    let found = Found {
        held: simd(),
        widest: Simd::widest(),
        narrow_flex: !cfg!(feature = "x86-v4"),
        narrow_xla: flags.contains(XLA_AVX2),
    };
    found.of(device, capability.is_cpu())
}

/// What decides it.
#[derive(Clone, Copy)]
struct Found {
    held: Simd,
    widest: Simd,
    /// Whether Burn's products on Flex are built without AVX-512.
    narrow_flex: bool,
    /// Whether XLA is told to compile for AVX2.
    narrow_xla: bool,
}

impl Found {
    fn of(self, device: &Device, on_processor: bool) -> Result<Option<Simd>, HeldError> {
        let takes = match device {
            Device::Cpu => Some((self.widest, CPU)),
            Device::Flex if self.narrow_flex && self.held >= Simd::Avx2 => Some((self.held, FLEX)),
            Device::Flex if self.held < Simd::Avx2 => Some((self.widest, FLEX_BELOW)),
            Device::Flex => Some((self.widest, FLEX)),
            Device::Xla(XlaPlatform::Cpu, _) if self.narrow_xla => {
                Some((self.widest.min(Simd::Avx2), XLA))
            }
            Device::Xla(XlaPlatform::Cpu, _) => Some((self.widest, XLA)),
            _ if on_processor && self.held < self.widest => Some((self.widest, SOFTWARE)),
            _ => None,
        };
        match takes {
            Some((takes, reason)) if takes > self.held => Err(HeldError {
                device: *device,
                held: self.held,
                widest: self.widest,
                reason,
            }),
            takes => Ok(takes.map(|(takes, _)| takes)),
        }
    }
}

impl From<HeldError> for BenchError {
    fn from(error: HeldError) -> Self {
        Self::Held(Box::new(error))
    }
}

#[cfg(test)]
#[path = "instructions_tests.rs"]
mod tests;
