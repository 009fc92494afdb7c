//! What a benchmark is asked for, and where it is about to run.

use std::path::PathBuf;

use moebius_benches::{BenchError, instructions};
use moebius_device::{Capability, Device, probe};
use serde_json::Value;

use crate::args::How;
use crate::compare::Baseline;
use crate::error::CliError;
use crate::results::RunOf;
use crate::screen::Screen;

/// A benchmark, its device, and the result that it is compared with.
pub(crate) struct Asked<'a, B> {
    pub(crate) bench: &'a B,
    device: Device,
    compare: Option<&'a PathBuf>,
}

impl<'a, B> Asked<'a, B> {
    /// On a device that isn't `auto`.
    pub(crate) fn new(bench: &'a B, device: Device, how: &'a How) -> Self {
        Self {
            bench,
            device,
            compare: how.compare.as_ref(),
        }
    }

    /// The entry `run` of the result.
    pub(super) fn run_of(&self, workload: Value) -> Result<RunOf, CliError> {
        let found = probe(&self.device).map_err(moebius::Error::from)?;
        let simd = instructions(&self.device, &found).map_err(BenchError::from)?;
        let Capability { name, .. } = found;
        let device = self.device.to_string();
        Ok(RunOf {
            workload: workload.as_object().cloned().unwrap_or_default(),
            device: device.strip_suffix(":0").unwrap_or(&device).to_owned(),
            simd,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            adapter: name,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }

    /// What the result is compared with, where that is asked for.
    pub(super) fn baseline(
        &self,
        now: &RunOf,
        screen: &Screen,
    ) -> Result<Option<Baseline>, CliError> {
        let baseline = self.compare.map(|path| Baseline::read(path, now));
        let baseline = baseline.transpose()?;
        let other = baseline.as_ref().and_then(|of| of.other_adapter(now));
        if let Some(other) = other {
            screen.note(&format!("the baseline was measured on {other}"));
        }
        Ok(baseline)
    }
}
