//! Whether a GPU can be trusted with these kernels: the bundled cases say so, once for each device, version of its driver
//! and fingerprint of our kernels. Verdicts are remembered between runs.
//!
//! Processors and software adapters are what the project's tests run on, and XLA has no kernels of ours: these are
//! trusted. `auto` passes over a device that failed; a device that was named is used all the same, and the user told.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use moebius_device::{Capability, Choice, Device, Found, OpenError, Work, choose_for};
use serde::{Deserialize, Serialize};

use crate::error::CliError;

/// The most verdicts that are kept; the oldest go first.
const MOST: usize = 64;
/// The most bytes of a file that is read.
const MOST_BYTES: u64 = 256 * 1024;

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

/// What a verdict is about. Another driver or other kernels are another subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Subject {
    /// The runtime and the name of the adapter.
    device: String,
    /// The driver's version; empty where the system doesn't tell.
    driver: String,
    /// The fingerprint of our kernels.
    kernels: String,
}

/// What the bundled cases said about a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// All of them pass.
    Passed,
    /// Not all of them do, and this is what is wrong.
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
    /// Those in `file`: none where there is no such file.
    ///
    /// # Errors
    /// The system's words, or that the file makes no sense.
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

    /// Puts them in `file`, which other processes see as it was or as it will be.
    ///
    /// # Errors
    /// The system's words.
    fn write(&self, file: &Path) -> io::Result<()> {
        let folder = file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let beside = file.with_extension(format!("{}.new", std::process::id()));
        let written = fs::write(&beside, serde_json::to_vec_pretty(&self.0)?)
            .and_then(|()| fs::rename(&beside, file));
        if written.is_err() {
            // Its name is of this process, so nothing else removes it; the first error is the one to tell.
            let _ = fs::remove_file(&beside);
        }
        written
    }

    /// The verdict on `subject`.
    fn on(&self, subject: &Subject) -> Option<&Verdict> {
        let found = self.0.iter().rfind(|entry| entry.subject == *subject);
        found.map(|entry| &entry.verdict)
    }

    /// Remembers a verdict instead of older ones on the same device and kernels.
    fn remember(&mut self, subject: Subject, verdict: Verdict) {
        self.0.retain(|entry| entry.subject != subject);
        self.0.push(Entry { subject, verdict });
        let over = self.0.len().saturating_sub(MOST);
        self.0.drain(..over);
    }
}

/// The file of the verdicts in the user's cache folder, as the variables of the environment tell it.
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
