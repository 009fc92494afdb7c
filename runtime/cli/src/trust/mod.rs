//! Whether a GPU can be trusted with these kernels: the bundled cases say so, once for each device, version of its driver
//! and fingerprint of our kernels.
//!
//! Processors and software adapters are what the project's tests run on, and XLA has no kernels of ours: these are
//! trusted. `auto` passes over a device that failed; a device that was named is used all the same, and the user told.

mod store;

use std::path::PathBuf;

use moebius_device::{Capability, Choice, Device, Found, OpenError, Work, choose_for};

use crate::error::CliError;

pub(crate) use store::Verdict;
use store::{Subject, Verdicts};

/// What judges a device: the bundled cases, or a test. An error is that it can't be opened, which is no verdict.
pub(crate) type Check<'a> = dyn FnMut(Device) -> Result<Verdict, CliError> + 'a;

/// Verdicts, and what there is to say about them.
pub(crate) struct Trust {
    file: Option<PathBuf>,
    verdicts: Verdicts,
    kernels: &'static str,
    /// Lines for standard error that have not been read yet.
    said: Vec<String>,
}

/// What is known about a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It needs no check.
    Trusted,
    /// It has never been checked with this driver and these kernels.
    Unchecked,
    /// It has.
    Checked(Verdict),
}

impl Trust {
    /// With the verdicts of the user's cache folder.
    pub(crate) fn of_user() -> Self {
        Self::at(
            store::file(|name| std::env::var_os(name)),
            moebius_shaders::FINGERPRINT,
        )
    }

    fn at(file: Option<PathBuf>, kernels: &'static str) -> Self {
        let mut trust = Self {
            file,
            verdicts: Verdicts::default(),
            kernels,
            said: Vec::new(),
        };
        let read = trust.file.as_deref().map(Verdicts::read);
        match read {
            Some(Ok(verdicts)) => trust.verdicts = verdicts,
            Some(Err(error)) => trust.say_of_file("is ignored", &error),
            None => {}
        }
        trust
    }

    fn say_of_file(&mut self, what: &str, error: &std::io::Error) {
        let file = self.file.as_deref().unwrap_or("".as_ref()).display();
        let line = format!("the file of verdicts on devices, {file}, {what}: {error}");
        self.said.push(line);
    }

    fn subject(&self, device: Device, capability: &Capability) -> Option<Subject> {
        let gpu = matches!(
            device,
            Device::Wgpu(_) | Device::Vulkan(_) | Device::Cuda(_) | Device::Rocm(_)
        );
        (gpu && !capability.is_cpu()).then(|| Subject {
            device: format!("{} {}", device.name(), capability.name),
            driver: capability.driver.clone().unwrap_or_default(),
            kernels: self.kernels.to_owned(),
        })
    }

    /// What is known about `device`, without a check.
    pub(crate) fn known(&self, device: Device, capability: &Capability) -> Known {
        let Some(subject) = self.subject(device, capability) else {
            return Known::Trusted;
        };
        match self.verdicts.on(&subject) {
            None => Known::Unchecked,
            Some(verdict) => Known::Checked(verdict.clone()),
        }
    }

    /// What the bundled cases say about `device`: now, or when they first ran.
    ///
    /// # Errors
    /// That of the check.
    pub(crate) fn verdict(
        &mut self,
        device: Device,
        capability: &Capability,
        check: &mut Check<'_>,
    ) -> Result<Verdict, CliError> {
        let Some(subject) = self.subject(device, capability) else {
            return Ok(Verdict::Passed);
        };
        if let Some(verdict) = self.verdicts.on(&subject) {
            return Ok(verdict.clone());
        }
        let verdict = check(device)?;
        let result = match &verdict {
            Verdict::Passed => "they pass".to_owned(),
            Verdict::Failed(reason) => reason.clone(),
        };
        self.said.push(format!(
            "{device} ({}) has not run these kernels before and was checked with the bundled cases: {result}",
            capability.name
        ));
        self.verdicts.remember(subject, verdict.clone());
        let written = self.file.as_deref().map(|file| self.verdicts.write(file));
        if let Some(Err(error)) = written {
            self.say_of_file("can't be written", &error);
        }
        Ok(verdict)
    }

    /// What `auto` means for `work` among `found`: the best device that doesn't fail the bundled cases. Those that fail are marked so
    /// in `found`.
    ///
    /// # Errors
    /// [`CliError::NoDevice`] when none is left, and that of a check.
    pub(crate) fn choose(
        &mut self,
        work: Work,
        found: &mut [Found],
        check: &mut Check<'_>,
    ) -> Result<Choice, CliError> {
        loop {
            let choice = choose_for(work, found).map_err(CliError::NoDevice)?;
            let best = found.iter_mut().find(|found| found.device == choice.device);
            let Some(Found { device, status }) = best else {
                return Ok(choice);
            };
            let Ok(capability) = status else {
                return Ok(choice);
            };
            match self.verdict(*device, capability, check)? {
                Verdict::Passed => return Ok(choice),
                Verdict::Failed(reason) => {
                    self.said.push(format!(
                        "auto passes over {device} ({}): {reason}",
                        capability.name
                    ));
                    *status = Err(failed(*device, reason));
                }
            }
        }
    }

    /// Marks what is known to fail, so that `auto` passes over it, and checks nothing.
    pub(crate) fn mark(&self, found: &mut [Found]) {
        for Found { device, status } in found {
            let Ok(capability) = status else { continue };
            if let Known::Checked(Verdict::Failed(reason)) = self.known(*device, capability) {
                *status = Err(failed(*device, reason));
            }
        }
    }

    /// What there was to say since the last time.
    pub(crate) fn said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }
}

fn failed(device: Device, reason: String) -> OpenError {
    OpenError::WrongResults { device, reason }
}

#[cfg(test)]
mod tests;
