//! The device of a benchmark, its vector instructions, and the parts of a report that describe device, check and speed.

use crate::timing::{Speed, Timing};
use crate::{BenchError, Ceilings, Reached, ceiling};
use moebius::Error;
use moebius_device::{Capability, Device, Opened, XlaPlatform};
use moebius_host::{Simd, simd};
use serde::Serialize;

/// A device that is measured, opened.
pub(crate) struct Place {
    pub(crate) opened: Opened,
    /// Vector instructions that the device's code uses.
    simd: Option<Simd>,
    /// Burn's handle of the device, without autodiff.
    pub(crate) device: burn::tensor::Device,
}

/// Device and code that a benchmark ran with.
#[derive(Clone, Debug, Serialize)]
pub struct Ran {
    /// Device string, e.g. `cpu`.
    pub device: String,
    /// Name of the adapter.
    pub adapter: String,
    /// Kernel variant, `portable` where there are no kernels; `None` where each result has its own variant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Vector instructions that were used; `None` where no processor computes, or its driver doesn't say.
    pub simd: Option<Simd>,
}

/// Whether results agree with the f64 oracle; figures mean something only if they do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// Whether all compared values agree.
    pub verified: bool,
    /// Largest relative L2 error of the compared values.
    pub max_rel_l2: f64,
}

impl Checked {
    /// The verdict on `error`, which verifies if it is at most `most`.
    pub(crate) fn within(most: f64, error: f64) -> Self {
        Self {
            verified: error <= most,
            max_rel_l2: error,
        }
    }
}

impl Place {
    pub(crate) fn open(name: &Device) -> Result<Self, BenchError> {
        let opened = moebius_device::open(name).map_err(Error::from)?;
        Ok(Self {
            simd: instructions(&opened.device, &opened.capability)?,
            device: moebius::open(&opened.device)?,
            opened,
        })
    }

    /// Name of the variant that `plan` chooses, `portable` where there are no kernels. Call it before anything is put on the
    /// device, since Burn panics where a device can't hold a type.
    pub(crate) fn variant(
        &self,
        plan: impl FnOnce(&Capability) -> Result<&'static str, Error>,
    ) -> Result<String, Error> {
        let variant = match self.opened.client() {
            Some(_) => plan(&self.opened.capability)?,
            None => "portable",
        };
        Ok(variant.to_owned())
    }

    /// The report's description of the device, with the kernel `variant`.
    pub(crate) fn ran(&self, variant: Option<String>) -> Ran {
        Ran {
            device: self.opened.device.to_string(),
            adapter: self.opened.capability.name.clone(),
            variant,
            simd: self.simd,
        }
    }

    /// Whether the device is a processor on which CubeCL computes.
    pub(crate) fn on_cpu_runtime(&self) -> bool {
        self.opened.capability.cpu_cores.is_some() && self.opened.client().is_some()
    }

    /// Waits for everything enqueued on the device, as [`ceiling::finish`] does.
    pub(crate) fn finish(&self) -> Result<(), BenchError> {
        ceiling::finish(&self.device)
    }

    /// Waits for the work that gives `results`, as [`ceiling::finish_with`] does.
    pub(crate) fn finish_with<T>(&self, results: T) -> Result<(), BenchError> {
        ceiling::finish_with(results, &self.device)
    }

    /// Measures the ceilings that results on this device are compared with.
    pub(crate) fn ceilings(&self) -> Result<Ceilings, BenchError> {
        Ceilings::measure(&self.opened, &self.device)
    }
}

/// A result: the device, the check, the time, and the ceilings it is compared with.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// Device that was measured.
    #[serde(flatten)]
    pub ran: Ran,
    /// Whether the result verifies.
    #[serde(flatten)]
    pub checked: Checked,
    /// Milliseconds of the first run, kernel compilation included.
    pub first_ms: f64,
    /// Time and GFLOP/s of the result.
    #[serde(flatten)]
    pub speed: Speed,
    /// Ceilings that the device reached in the same run.
    #[serde(flatten)]
    pub ceilings: Ceilings,
    /// How near the result is to the ceilings.
    #[serde(flatten)]
    pub reached: Reached,
    /// Least number of bytes that have to be read or written.
    pub floor_bytes: u64,
}

impl Measurement {
    /// Result of runs that take `time`, each with `flops` and `floor_bytes`; the first took `first_ms`.
    pub(crate) fn new(
        ran: Ran,
        checked: Checked,
        (first_ms, time): (f64, Timing),
        ceilings: Ceilings,
        [flops, floor_bytes]: [u64; 2],
    ) -> Self {
        Self {
            ran,
            checked,
            first_ms,
            speed: time.speed(flops),
            reached: ceilings.reached(time, [flops, floor_bytes]),
            ceilings,
            floor_bytes,
        }
    }
}

/// Why a device can't be held to fewer vector instructions than the processor has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{device} can't be held to {held} on a processor with {widest}: {reason}")]
pub struct HeldError {
    /// The device.
    pub device: Device,
    /// Vector instructions that were asked for.
    pub held: Simd,
    /// Widest vector instructions of the processor.
    pub widest: Simd,
    /// The code that uses wider instructions than asked for.
    pub reason: &'static str,
}

const CPU: &str =
    "CubeCL compiles its kernels for all that LLVM finds in it, and no option changes that";
const FLEX: &str = "Burn's own products take AVX-512; build without the cargo feature x86-v4";
const FLEX_BELOW: &str = "Burn's own products take AVX2 or NEON, and no option changes that";
const XLA: &str =
    "XLA reads its own variable, set XLA_FLAGS=--xla_cpu_max_isa=AVX2 and ask for avx2";
const SOFTWARE: &str = "its driver compiles for all that it finds in it";

/// XLA's flag that limits its code to AVX2.
const XLA_AVX2: &str = "--xla_cpu_max_isa=AVX2";

/// Vector instructions that code for a device uses; `None` where no processor computes, or they aren't known.
///
/// # Errors
/// [`HeldError`] when the device uses wider instructions than the process is held to.
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

/// Settings that decide which vector instructions a device uses.
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
        // The most that Burn's products on Flex take.
        let of_burn = if self.narrow_flex {
            Simd::Avx2
        } else {
            Simd::Avx512
        };
        let takes = match device {
            Device::Cpu => Some((self.widest, CPU)),
            Device::Flex if self.held >= of_burn => Some((self.held, FLEX)),
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
#[path = "place_tests.rs"]
mod tests;
