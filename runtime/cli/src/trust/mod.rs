//! Whether a GPU can be trusted with these kernels: the bundled cases say so, once for each device, version of its driver
//! and fingerprint of our kernels.
//!
//! Processors and software adapters are what the project's tests run on, and XLA has no kernels of ours: these are
//! trusted. `auto` passes over a device that failed; a device that was named is used all the same, and the user told.

mod store;

use std::path::PathBuf;

use moebius_device::{Capability, Choice, Device, Found, OpenError, choose};

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

    /// What `auto` means among `found`: the best device that doesn't fail the bundled cases. Those that fail are marked so
    /// in `found`.
    ///
    /// # Errors
    /// [`CliError::NoDevice`] when none is left, and that of a check.
    pub(crate) fn choose(
        &mut self,
        found: &mut [Found],
        check: &mut Check<'_>,
    ) -> Result<Choice, CliError> {
        loop {
            let choice = choose(found).map_err(CliError::NoDevice)?;
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
mod tests {
    use super::*;
    use moebius_device::{DeviceKind, profiles};
    use std::fs;
    use std::path::Path;

    const WRONG: &str = "moe_layer_relu disagrees";

    fn device(name: &str) -> Device {
        name.parse().unwrap()
    }

    fn found(name: &str, capability: Capability) -> Found {
        Found {
            device: device(name),
            status: Ok(capability),
        }
    }

    fn gpu(driver: &str) -> Capability {
        Capability {
            driver: Some(driver.to_owned()),
            ..profiles::h100()
        }
    }

    /// A machine with two GPUs, one through two runtimes, and processors.
    fn machine(driver: &str) -> Vec<Found> {
        let mut other = gpu(driver);
        other.kind = DeviceKind::IntegratedGpu;
        other.name = "integrated".to_owned();
        vec![
            found("vulkan:0", gpu(driver)),
            found("wgpu:0", gpu(driver)),
            found("wgpu:1", other),
            found("cpu", profiles::cpu_4core_avx2()),
        ]
    }

    /// What `auto` chooses in a process of its own, which devices it checked, and what it said.
    fn run(
        file: &Path,
        kernels: &'static str,
        driver: &str,
        wrong: &[&str],
    ) -> (String, Vec<String>, Vec<String>) {
        let mut trust = Trust::at(Some(file.to_owned()), kernels);
        let mut checked = Vec::new();
        let mut check = |device: Device| -> Result<Verdict, CliError> {
            let name = device.to_string();
            let verdict = if wrong.contains(&name.as_str()) {
                Verdict::Failed(WRONG.to_owned())
            } else {
                Verdict::Passed
            };
            checked.push(name);
            Ok(verdict)
        };
        let choice = trust.choose(&mut machine(driver), &mut check).unwrap();
        (choice.device.to_string(), checked, trust.said())
    }

    #[test]
    fn a_device_is_checked_once_for_each_driver_and_kernels() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("verdicts.json");
        let chosen = |kernels, driver| run(&file, kernels, driver, &[]);
        let (device, checked, said) = chosen("k1", "1.0");
        assert_eq!(
            (device.as_str(), &checked[..]),
            ("vulkan:0", &["vulkan:0".to_owned()][..])
        );
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains("has not run these kernels before"),
            "{said:?}"
        );
        let (device, checked, said) = chosen("k1", "1.0");
        assert_eq!(
            (device.as_str(), checked.len(), said.len()),
            ("vulkan:0", 0, 0)
        );
        assert_eq!(chosen("k1", "1.1").1.len(), 1, "another driver");
        assert_eq!(chosen("k2", "1.1").1.len(), 1, "other kernels");
        assert_eq!(
            chosen("k1", "1.0").1.len(),
            0,
            "the first verdict is still there"
        );
    }

    #[test]
    fn auto_passes_over_devices_that_fail_and_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("verdicts.json");
        let wrong = ["vulkan:0", "wgpu:0"];
        let (device, checked, said) = run(&file, "k", "1", &wrong);
        assert_eq!(device, "wgpu:1");
        assert_eq!(checked, ["vulkan:0", "wgpu:0", "wgpu:1"]);
        let over = |said: &[String]| {
            let over = said
                .iter()
                .filter(|line| line.starts_with("auto passes over"));
            over.filter(|line| line.contains(WRONG)).count()
        };
        assert_eq!(over(&said), 2, "{said:?}");
        // The next time nothing is checked, and the reason is told again.
        let (device, checked, said) = run(&file, "k", "1", &[]);
        assert_eq!(
            (device.as_str(), checked.len(), over(&said)),
            ("wgpu:1", 0, 2)
        );
        // Where every GPU fails there is the processor, which needs no check.
        let all = ["vulkan:0", "wgpu:0", "wgpu:1"];
        let (device, checked, _) = run(&file, "other kernels", "1", &all);
        assert_eq!((device.as_str(), checked.len()), ("cpu", 3));
    }

    #[test]
    fn verdicts_are_shown_without_a_check() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("verdicts.json");
        let trust = |kernels| Trust::at(Some(file.clone()), kernels);
        assert_eq!(
            trust("k").known(device("wgpu:0"), &gpu("1")),
            Known::Unchecked
        );
        run(&file, "k", "1", &["vulkan:0"]);
        let failed = Known::Checked(Verdict::Failed(WRONG.to_owned()));
        assert_eq!(trust("k").known(device("vulkan:0"), &gpu("1")), failed);
        let passed = Known::Checked(Verdict::Passed);
        assert_eq!(trust("k").known(device("wgpu:0"), &gpu("1")), passed);
        assert_eq!(
            trust("k").known(device("wgpu:0"), &gpu("2")),
            Known::Unchecked
        );
        for (name, capability) in [
            ("cpu", profiles::cpu_4core_avx2()),
            ("flex", profiles::cpu_4core_avx2()),
            ("wgpu:0", profiles::lavapipe()),
            ("wgpu:0", profiles::swiftshader()),
            ("xla:tpu", gpu("1")),
        ] {
            assert_eq!(trust("k").known(device(name), &capability), Known::Trusted);
        }
        let mut all = machine("1");
        trust("k").mark(&mut all);
        assert_eq!(choose(&all).unwrap().device, device("wgpu:0"));
        let error = all[0].status.as_ref().unwrap_err().to_string();
        assert!(
            error.contains("computes wrong results") && error.contains(WRONG),
            "{error}"
        );
    }

    #[test]
    fn a_broken_file_is_ignored_and_told_of() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("verdicts.json");
        fs::write(&file, "[{\"device\": ").unwrap();
        let (device, checked, said) = run(&file, "k", "1", &[]);
        assert_eq!((device.as_str(), checked.len()), ("vulkan:0", 1));
        assert!(said[0].contains("is ignored"), "{said:?}");
        // And replaced.
        assert_eq!(run(&file, "k", "1", &[]).1.len(), 0);
        // One that can't be written is no reason to compute nothing.
        let below = file.join("below.json");
        let (device, checked, said) = run(&below, "k", "1", &[]);
        assert_eq!((device.as_str(), checked.len()), ("vulkan:0", 1));
        assert!(
            said.iter().any(|line| line.contains("can't be written")),
            "{said:?}"
        );
    }

    #[test]
    fn a_device_that_does_not_open_has_no_verdict() {
        let mut trust = Trust::at(None, "k");
        let mut check = |device: Device| -> Result<Verdict, CliError> {
            Err(CliError::NoDevice(failed(device, "gone".to_owned())))
        };
        assert!(trust.choose(&mut machine("1"), &mut check).is_err());
        let card = gpu("1");
        assert_eq!(trust.known(device("vulkan:0"), &card), Known::Unchecked);
    }
}
