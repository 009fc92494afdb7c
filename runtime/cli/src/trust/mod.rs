//! Whether a GPU can be trusted with our kernels: the bundled cases decide, once for each device, driver version and
//! fingerprint of our kernels. Verdicts are remembered between runs.
//!
//! Processors and software adapters are trusted, since the project's tests run on them, as is XLA, which has no kernels
//! of ours. `auto` passes over a device that failed; a device that was named is used all the same, with a message to
//! the user.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use moebius_device::{Capability, Choice, Device, Found, OpenError, Work, choose_for};
use serde::{Deserialize, Serialize};

use crate::error::CliError;

/// Largest number of remembered verdicts; the oldest are dropped.
const MOST: usize = 64;
/// Largest number of bytes that are read of the file.
const MOST_BYTES: u64 = 256 * 1024;

/// Function that checks a device: with the bundled cases, or in tests. An error means that the device can't be opened,
/// which is no verdict.
pub(crate) type Check<'a> = dyn FnMut(Device) -> Result<Verdict, CliError> + 'a;

/// The remembered verdicts, and messages about them.
pub(crate) struct Trust {
    file: Option<PathBuf>,
    verdicts: Verdicts,
    kernels: &'static str,
    /// Lines for standard error that [`Trust::said`] has not returned yet.
    said: Vec<String>,
}

/// What is known about a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The device needs no check.
    Trusted,
    /// The device has never been checked with this driver and these kernels.
    Unchecked,
    /// The device has been checked, with this verdict.
    Checked(Verdict),
}

impl Trust {
    /// Reads the verdicts in the user's cache folder.
    pub(crate) fn of_user() -> Self {
        let file = file(|name| std::env::var_os(name));
        Self::at(file, moebius_shaders::FINGERPRINT)
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

    /// The user's cache folder, which has the file of verdicts; `None` if the environment names none.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.file.as_deref().and_then(Path::parent)
    }

    fn say_of_file(&mut self, what: &str, error: &io::Error) {
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

    /// The remembered verdict on `device`; runs no check.
    pub(crate) fn known(&self, device: Device, capability: &Capability) -> Known {
        let Some(subject) = self.subject(device, capability) else {
            return Known::Trusted;
        };
        match self.verdicts.on(&subject) {
            None => Known::Unchecked,
            Some(verdict) => Known::Checked(verdict.clone()),
        }
    }

    /// The verdict on `device`: the remembered one, or else that of `check`, which is then remembered.
    ///
    /// # Errors
    /// The error of `check`.
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

    /// Chooses a device for `work` as `auto` does: the best in `found` that passes the bundled cases. Devices that fail are marked as
    /// such in `found`.
    ///
    /// # Errors
    /// [`CliError::NoDevice`] when no device is left, and any error of `check`.
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

    /// Marks devices that are known to fail, so that `auto` passes over them; runs no check.
    pub(crate) fn mark(&self, found: &mut [Found]) {
        for Found { device, status } in found {
            let Ok(capability) = status else { continue };
            if let Known::Checked(Verdict::Failed(reason)) = self.known(*device, capability) {
                *status = Err(failed(*device, reason));
            }
        }
    }

    /// Takes the messages since the last call.
    pub(crate) fn said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }
}

fn failed(device: Device, reason: String) -> OpenError {
    OpenError::WrongResults { device, reason }
}

/// What a verdict holds for; another driver or other kernels need another verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Subject {
    /// Name of the runtime and of the adapter.
    device: String,
    /// Version of the driver; empty if the system doesn't say.
    driver: String,
    /// Fingerprint of our kernels.
    kernels: String,
}

/// Result of the bundled cases on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// All cases pass.
    Passed,
    /// Some case doesn't pass, for this reason.
    Failed(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    subject: Subject,
    verdict: Verdict,
}

/// All remembered verdicts, the newest last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Verdicts(Vec<Entry>);

impl Verdicts {
    /// Reads the verdicts in `file`; there are none if the file doesn't exist.
    ///
    /// # Errors
    /// The system's error, or one for a file that can't be parsed.
    fn read(file: &Path) -> io::Result<Self> {
        let opened = match fs::File::open(file) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let mut text = String::new();
        opened.take(MOST_BYTES).read_to_string(&mut text)?;
        Ok(Self(serde_json::from_str(&text)?))
    }

    /// Writes the verdicts to `file` at once, so that other processes see the old or the new file, never a part.
    ///
    /// # Errors
    /// The system's error.
    fn write(&self, file: &Path) -> io::Result<()> {
        let folder = file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let beside = file.with_extension(format!("{}.new", std::process::id()));
        let written = fs::write(&beside, serde_json::to_vec_pretty(&self.0)?)
            .and_then(|()| fs::rename(&beside, file));
        if written.is_err() {
            // The temporary file's name has this process's id, so nothing else removes it; only the first error is
            // reported.
            let _ = fs::remove_file(&beside);
        }
        written
    }

    /// The verdict on `subject`.
    fn on(&self, subject: &Subject) -> Option<&Verdict> {
        let found = self.0.iter().rfind(|entry| entry.subject == *subject);
        found.map(|entry| &entry.verdict)
    }

    /// Remembers a verdict, in place of an older one on the same subject.
    fn remember(&mut self, subject: Subject, verdict: Verdict) {
        self.0.retain(|entry| entry.subject != subject);
        self.0.push(Entry { subject, verdict });
        let over = self.0.len().saturating_sub(MOST);
        self.0.drain(..over);
    }
}

/// Path of the file with the verdicts in the user's cache folder, from environment variables.
fn file(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name: &str| {
        let folder = variable(name).filter(|value| !value.is_empty());
        folder.map(PathBuf::from)
    };
    let caches = if cfg!(target_os = "macos") {
        folder("HOME").map(|home| home.join("Library/Caches"))
    } else if cfg!(windows) {
        folder("LOCALAPPDATA")
    } else {
        folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))
    };
    Some(caches?.join("moebius").join("verdicts.json"))
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod store_tests;
#[cfg(test)]
mod tests;
