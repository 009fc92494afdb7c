//! Where a benchmark runs, and what its report says of that and of its check.

use crate::{BenchError, Ceilings, ceiling, instructions};
use moebius::Error;
use moebius_device::{Capability, Device, Opened};
use moebius_host::Simd;
use serde::Serialize;

/// A device that is measured.
pub(crate) struct Place {
    pub(crate) opened: Opened,
    /// Vector instructions that run.
    simd: Option<Simd>,
    /// Without the recording of gradients.
    pub(crate) device: burn::tensor::Device,
}

/// Where a benchmark ran.
#[derive(Clone, Debug, Serialize)]
pub struct Ran {
    /// Device string, e.g. `cpu`.
    pub device: String,
    /// Its name.
    pub adapter: String,
    /// Kernel variant, `portable` where there are no kernels; `None` where each result has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Vector instructions that ran; `None` where no processor computes, or its driver doesn't say.
    pub simd: Option<Simd>,
}

/// Whether results agree with the f64 oracle: figures mean something only where they do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// Whether all that was compared agrees.
    pub verified: bool,
    /// The largest relative L2 error of it.
    pub max_rel_l2: f64,
}

impl Checked {
    /// An error that verifies up to `most`.
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

    /// The variant that `plan` chooses, `portable` where there are no kernels; asked before anything is put on the device, because
    /// Burn panics where a device can't hold a type.
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

    /// What a report says of it.
    pub(crate) fn ran(&self, variant: Option<String>) -> Ran {
        Ran {
            device: self.opened.device.to_string(),
            adapter: self.opened.capability.name.clone(),
            variant,
            simd: self.simd,
        }
    }

    /// Whether CubeCL computes on a processor.
    pub(crate) fn on_cpu_runtime(&self) -> bool {
        self.opened.capability.cpu_cores.is_some() && self.opened.client().is_some()
    }

    /// Waits for everything enqueued, as [`ceiling::finish`] does.
    pub(crate) fn finish(&self) -> Result<(), BenchError> {
        ceiling::finish(&self.device)
    }

    /// The same for what gives `results`, as [`ceiling::finish_with`] does.
    pub(crate) fn finish_with<T>(&self, results: T) -> Result<(), BenchError> {
        ceiling::finish_with(results, &self.device)
    }

    /// What results are compared with.
    pub(crate) fn ceilings(&self) -> Result<Ceilings, BenchError> {
        Ceilings::measure(&self.opened, &self.device)
    }
}
