//! Certificates: what devices computed of the same work, part by part, and how far that is from the reference. A certificate is a file that
//! another program of the same version can read, so that those of several machines can be united. `docs/certificate.schema.json` describes its
//! JSON.

mod found;
mod hash;

use clap::ValueEnum;
use moebius_model::computation::{Cost, Greedy, Limits};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use found::{
    Demo, Family, Found, Furthest, Measured, Oracle, Place, Rate, Reading, Reason, Shown, Timed,
    Unlike, Verdict, Wrong,
};
pub(crate) use hash::Hash;

/// What a certificate's file says it is.
pub(crate) const FORMAT: &str = "moebius-certificate";
/// Version of the format.
pub(crate) const VERSION: u64 = 4;

/// Why a file can't be united with others.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    /// The file is no certificate.
    #[error("{path}: expected a report.json of `moebius validate`, got {got}")]
    Foreign { path: String, got: String },
    /// The file is of another version, model, text, folder of cases or program than the first, or has no part in common with it.
    #[error("{path}: expected {what} {expected}, got {got}")]
    Differs {
        path: String,
        what: &'static str,
        expected: String,
        got: String,
    },
}

/// What devices computed of one subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Certificate {
    pub(crate) format: String,
    pub(crate) version: u64,
    pub(crate) program: Program,
    pub(crate) subject: Subject,
    pub(crate) limits: Limits,
    /// What the certificate says nothing about, a sentence each.
    pub(crate) gaps: Vec<String>,
    /// Devices that machines lack.
    pub(crate) absent: Vec<Absent>,
    /// The devices, in the order in which they were named.
    pub(crate) devices: Vec<Tested>,
}

/// The program that computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    /// Version of the command.
    pub(crate) version: String,
    /// Fingerprint of the kernels.
    pub(crate) kernels: String,
}

/// A part of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Section {
    /// Every part of a model against a decoder in f64.
    Model,
    /// How likely the model in training finds the tokens of a text, against the engine that serves it; with the part model.
    Training,
    /// Case files of operations: the bundled ones, or those of --cases.
    Cases,
    /// The demos of `moebius demo`: minutes on each device.
    Demos,
    /// Some of the benchmarks of `cargo bench`, verified and timed.
    Bench,
}

impl Section {
    /// Name of the part on the command line and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Training => "training",
            Self::Cases => "cases",
            Self::Demos => "demos",
            Self::Bench => "bench",
        }
    }
}

/// What was computed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Subject {
    /// The model; `None` without that part.
    pub(crate) model: Option<OfModel>,
    /// Whether the model's training was compared with its inference.
    pub(crate) training: bool,
    /// The cases; `None` without that part.
    pub(crate) cases: Option<OfCases>,
    /// Names of the demos; empty without that part.
    pub(crate) demos: Vec<String>,
    /// Names of the benchmarks; empty without that part.
    pub(crate) benchmarks: Vec<String>,
}

/// A model, on the tokens of a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfModel {
    /// Path of the model, or the name of the bundled one.
    pub(crate) name: String,
    pub(crate) family: String,
    /// Whether it was computed with the same bits on every device.
    pub(crate) exact: bool,
    /// Hash of the description and of all values of the weights, whatever files they come from (SHA-256).
    pub(crate) hash: String,
    pub(crate) tokens: Vec<u32>,
}

/// Case files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfCases {
    /// Folder of the files, or the name of the bundled ones.
    pub(crate) name: String,
    /// Number of files.
    pub(crate) files: usize,
    /// Hash of the names and the bytes of all files (SHA-256).
    pub(crate) hash: String,
}

/// A device that a machine lacks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Absent {
    /// Name of the device on the command line.
    pub(crate) device: String,
    pub(crate) machine: Machine,
    /// Why it can't be used: no driver, no such hardware, or not part of the build.
    pub(crate) reason: String,
}

/// A device, and what it computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tested {
    /// Name of the device on the command line, or `webgpu` in a browser.
    pub(crate) device: String,
    /// Name of the adapter; `None` if the device can't be asked.
    pub(crate) adapter: Option<String>,
    /// Name and version of the driver, if the system tells; in a browser, what it says of itself.
    pub(crate) driver: Option<String>,
    pub(crate) machine: Machine,
    /// Whether the device is a card in software: drivers that run its kernels on the processor.
    pub(crate) emulated: bool,
    /// The worst verdict on a part.
    pub(crate) verdict: Verdict,
    /// Why the device computed nothing; `None` if it could be opened.
    pub(crate) error: Option<String>,
    /// What the device computed, in the order in which it did.
    pub(crate) parts: Vec<Done>,
}

/// The machine of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Machine {
    /// Operating system and architecture.
    pub(crate) system: String,
    /// Processors that the program may use.
    pub(crate) processors: u64,
}

/// A part of the certificate, on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Done {
    pub(crate) part: Section,
    /// Seconds of the whole forward pass that is compared, or of all cases, demos or benchmarks, with the compilation of kernels; `None` without a result.
    pub(crate) seconds: Option<f64>,
    /// Bytes in use on the device after the whole forward pass, with all that was kept of it; `None` for other parts, and where nothing tells.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) verdict: Verdict,
    pub(crate) found: Found,
}

impl Tested {
    /// Name of the device, with a mark for a card in software.
    pub(crate) fn name(&self) -> String {
        let mark = if self.emulated { ", emulated" } else { "" };
        format!("{}{mark}", self.device)
    }

    /// This device with the verdict that follows from its error and its parts.
    pub(crate) fn judged(mut self) -> Self {
        let worst = self.parts.iter().map(|part| part.verdict).max();
        self.verdict = match (&self.error, worst) {
            (None, Some(worst)) => worst,
            _ => Verdict::Failed,
        };
        self
    }

    /// This device with the bits of its model compared with those of the first device, part by part, and with the verdicts that follow: other bits
    /// of an exact model are another answer.
    fn compared(mut self, first: &[String], exact: bool) -> Self {
        for done in &mut self.parts {
            let Found::Model { parts, .. } = &mut done.found else {
                continue;
            };
            for (part, first) in parts.iter_mut().zip(first) {
                part.bits_of_first = part.hash == *first;
            }
            let apart = exact && parts.iter().any(|part| !part.bits_of_first);
            done.verdict = if apart {
                Verdict::Apart
            } else {
                done.found.verdict()
            };
        }
        self.judged()
    }

    /// What the device computed of the model: the parts, the first that isn't within the limits, and the first other token.
    pub(crate) fn model(&self) -> Option<(&[Measured], &Option<Place>, &Option<Greedy>)> {
        self.parts.iter().find_map(|done| match &done.found {
            Found::Model {
                parts,
                parting,
                greedy,
                ..
            } => Some((&parts[..], parting, greedy)),
            _ => None,
        })
    }

    /// What the parts of the model take on the device; `None` where nothing tells.
    pub(crate) fn costs(&self) -> Option<&[Cost]> {
        self.parts.iter().find_map(|done| done.found.costs())
    }
}

/// What two certificates differ in: its name, the value here and the value there.
type Difference = (&'static str, String, String);

impl Subject {
    /// The parts that there are.
    pub(crate) fn sections(&self) -> Vec<Section> {
        let has = [
            (Section::Model, self.model.is_some()),
            (Section::Training, self.training),
            (Section::Cases, self.cases.is_some()),
            (Section::Demos, !self.demos.is_empty()),
            (Section::Bench, !self.benchmarks.is_empty()),
        ];
        let has = has.into_iter().filter(|(_, has)| *has);
        has.map(|(section, _)| section).collect()
    }

    /// Whether the model is computed with the same bits on every device; false without a model.
    pub(crate) fn is_exact(&self) -> bool {
        self.model.as_ref().is_some_and(|of| of.exact)
    }

    /// The first difference that keeps results from being compared: a model that is exact and one that isn't, another model, other tokens or
    /// cases, or no part in common.
    fn difference(&self, other: &Self) -> Option<Difference> {
        let (ours, theirs) = (self.sections(), other.sections());
        if !ours.iter().any(|section| theirs.contains(section)) {
            let names = |of: &[Section]| {
                let names: Vec<&str> = of.iter().map(|section| section.name()).collect();
                names.join(", ")
            };
            return Some(("one of the parts", names(&ours), names(&theirs)));
        }
        let mut pairs: Vec<Difference> = Vec::new();
        if let (Some(ours), Some(theirs)) = (&self.model, &other.model) {
            let kind = |of: &OfModel| {
                let exact = if of.exact { "an exact" } else { "a" };
                format!("{exact} model")
            };
            let tokens = |of: &OfModel| format!("{:?}", of.tokens);
            pairs.push(("results of", kind(ours), kind(theirs)));
            pairs.push(("the hash", ours.hash.clone(), theirs.hash.clone()));
            pairs.push(("the tokens", tokens(ours), tokens(theirs)));
        }
        if let (Some(ours), Some(theirs)) = (&self.cases, &other.cases) {
            let what = "the hash of cases";
            pairs.push((what, ours.hash.clone(), theirs.hash.clone()));
        }
        pairs.into_iter().find(|(_, ours, theirs)| ours != theirs)
    }

    /// This subject with the parts of another that it lacks.
    fn united(self, other: Self) -> Self {
        let all = |mut ours: Vec<String>, theirs: Vec<String>| {
            let new = theirs.into_iter().filter(|name| !ours.contains(name));
            let new: Vec<String> = new.collect();
            ours.extend(new);
            ours
        };
        Self {
            model: self.model.or(other.model),
            training: self.training || other.training,
            cases: self.cases.or(other.cases),
            demos: all(self.demos, other.demos),
            benchmarks: all(self.benchmarks, other.benchmarks),
        }
    }
}

impl Certificate {
    /// A certificate of this program.
    pub(crate) fn new(
        subject: Subject,
        limits: Limits,
        absent: Vec<Absent>,
        devices: Vec<Tested>,
    ) -> Self {
        let certificate = Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            program: Program {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                kernels: moebius_shaders::FINGERPRINT.to_owned(),
            },
            subject,
            limits,
            gaps: Vec::new(),
            absent,
            devices,
        };
        certificate.compared()
    }

    /// Reads a certificate from the bytes of the file at `path`.
    ///
    /// # Errors
    /// [`CertificateError`] for other files and other versions.
    pub(crate) fn parse(path: &str, bytes: &[u8]) -> Result<Self, CertificateError> {
        let foreign = |got: String| CertificateError::Foreign {
            path: path.to_owned(),
            got,
        };
        let value: Value = serde_json::from_slice(bytes).map_err(|e| foreign(e.to_string()))?;
        if value["format"] != FORMAT {
            return Err(foreign(format!("the format {}", value["format"])));
        }
        if value["version"] != VERSION {
            return Err(CertificateError::Differs {
                path: path.to_owned(),
                what: "version",
                expected: VERSION.to_string(),
                got: value["version"].to_string(),
            });
        }
        serde_json::from_value(value).map_err(|e| foreign(e.to_string()))
    }

    /// This certificate with the devices of `other`, which was read from `path`, and the parts that it lacks.
    ///
    /// # Errors
    /// [`CertificateError::Differs`] for one of other work, limits or programs, or without a part in common.
    pub(crate) fn with(mut self, other: Self, path: &str) -> Result<Self, CertificateError> {
        let limits = |of: &Self| format!("{:?}", of.limits);
        let (ours, theirs) = (&self.program, &other.program);
        let programs = [
            (
                "the program's version",
                ours.version.clone(),
                theirs.version.clone(),
            ),
            (
                "the fingerprint of kernels",
                ours.kernels.clone(),
                theirs.kernels.clone(),
            ),
            ("the limits", limits(&self), limits(&other)),
        ];
        let differing = programs
            .into_iter()
            .find(|(_, ours, theirs)| ours != theirs);
        let differing = self.subject.difference(&other.subject).or(differing);
        if let Some((what, expected, got)) = differing {
            let path = path.to_owned();
            return Err(CertificateError::Differs {
                path,
                what,
                expected,
                got,
            });
        }
        self.subject = self.subject.united(other.subject);
        self.absent.extend(other.absent);
        self.devices.extend(other.devices);
        Ok(self.compared())
    }

    /// This certificate with its gaps, and with the bits of all devices compared with those of the first that computed the model.
    fn compared(mut self) -> Self {
        let first = self.devices.iter().find_map(|tested| {
            let (parts, ..) = tested.model()?;
            let hashes = parts.iter().map(|part| part.hash.clone());
            Some(hashes.collect::<Vec<_>>())
        });
        let (first, exact) = (first.unwrap_or_default(), self.subject.is_exact());
        let devices = self.devices.into_iter();
        self.devices = devices.map(|of| of.compared(&first, exact)).collect();
        self.gaps = self.known_gaps();
        self
    }

    /// What the parts say nothing about.
    fn gaps_of_parts(&self) -> Vec<String> {
        let subject = &self.subject;
        let said =
            |lacks: bool, less: &str, more: &str| (if lacks { less } else { more }).to_owned();
        let of_model = if subject.is_exact() {
            "model: one text, computed exactly in f32; no other way to compute and no cache was compared"
        } else {
            "model: one text in f32, codes in FP8 staying codes; no other type and no cache was compared"
        };
        vec![
            "conformance: the cases of single kernels at the edges of their sizes and with hostile data are programs of the tests \
            (`scripts/test --only conformance`), which no shipped program has"
                .to_owned(),
            said(
                subject.model.is_none(),
                "model: none was compared; --model DIR or --bundled names one",
                of_model,
            ),
            said(
                !subject.training,
                "training: not compared with inference; --parts model,training does",
                "training: log-probabilities of one text's tokens, in floating point with a cache in f32; no gradients",
            ),
            said(
                subject.cases.is_none(),
                "cases: none ran; --parts cases runs the bundled ones",
                "cases: few and small sizes of each operation",
            ),
            said(
                subject.demos.is_empty(),
                "demos: none ran; --parts demos runs them",
                "demos: every_device did not run, since its result is that of other devices, too",
            ),
            said(
                subject.benchmarks.is_empty(),
                "bench: nothing was timed; --parts bench does",
                "bench: small sizes of some benchmarks; `cargo bench` has all",
            ),
        ]
    }

    /// What this certificate says nothing about.
    fn known_gaps(&self) -> Vec<String> {
        let mut gaps = self.gaps_of_parts();
        for tested in &self.devices {
            for done in &tested.parts {
                let device = tested.name();
                match &done.found {
                    Found::Cases { lacking: 1.., .. } => gaps.push(format!(
                        "{device}: cases in a type that the device lacks did not run"
                    )),
                    Found::Model {
                        oracle: Oracle::Committed,
                        ..
                    } => gaps.push(format!(
                        "{device}: compared by the page with the reference's values rounded to f32, from a file that `moebius validate reference` wrote; \
                        a page can't wait within a pass, so that no layer has a time"
                    )),
                    Found::Model {
                        untimed: Some(why), ..
                    } => gaps.push(format!(
                        "{device}: no layer has a time, since timing them failed: {why}"
                    )),
                    _ => {}
                }
            }
        }
        gaps.extend(self.refused());
        if self.devices.iter().any(|tested| tested.emulated) {
            let emulated = "emulated: drivers in software run CUDA C++ and HIP C++ on the processor, which says nothing about the cards' own arithmetic, \
                drivers and speed; Metal's language has such a driver in the tests alone";
            gaps.push(emulated.to_owned());
        }
        gaps
    }

    /// What did not run because a device refuses it.
    fn refused(&self) -> Vec<String> {
        let mut said = Vec::new();
        for tested in &self.devices {
            for done in &tested.parts {
                let what = match &done.found {
                    Found::Demos(all)
                        if all.iter().any(|of| matches!(of.result, Shown::Refused(_))) =>
                    {
                        "demos"
                    }
                    Found::Bench { refused, .. } if !refused.is_empty() => "benchmarks",
                    _ => continue,
                };
                let device = tested.name();
                said.push(format!(
                    "{device}: {what} that the device refuses did not run"
                ));
            }
        }
        said
    }
}

#[cfg(test)]
pub(crate) mod tests;
