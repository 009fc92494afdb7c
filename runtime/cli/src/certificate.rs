//! Certificates: what devices computed of the same work, and how far that is from the reference. A certificate is a file that another
//! program of the same version can read, so that those of several machines can be united. `docs/certificate.schema.json` describes its JSON.

use moebius_model::computation::{Distance, Greedy, Limits, Part};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a certificate's file says it is.
pub(crate) const FORMAT: &str = "moebius-certificate";
/// Version of the format.
pub(crate) const VERSION: u64 = 1;

/// Why a file can't be united with others.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    /// The file is no certificate.
    #[error("{path}: expected a report.json of `moebius validate`, got {got}")]
    Foreign { path: String, got: String },
    /// The file is of another version, model, text or program than the first.
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

/// What was computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Subject {
    /// The bundled cases.
    Cases {
        /// Hash of all case files (BLAKE3).
        hash: String,
    },
    /// A model, on the tokens of a text.
    Model {
        /// Path of the model, or the name of the bundled one.
        name: String,
        family: String,
        /// Hash of the description and of all values of the weights, whatever files they come from (BLAKE3).
        hash: String,
        tokens: Vec<u32>,
    },
}

/// A device, and what it computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tested {
    /// Name of the device on the command line.
    pub(crate) device: String,
    /// Name of the adapter; `None` if the device can't be asked.
    pub(crate) adapter: Option<String>,
    /// Name and version of the driver, if the system tells.
    pub(crate) driver: Option<String>,
    pub(crate) machine: Machine,
    /// Seconds of the forward pass or of all cases, with the compilation of kernels; `None` without a result.
    pub(crate) seconds: Option<f64>,
    /// Bytes in use on the device after the forward pass, with all that was kept of it; `None` where nothing tells.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) verdict: Verdict,
    pub(crate) found: Found,
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

/// Verdict on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// All is within the limits.
    Same,
    /// Something isn't within the limits.
    Apart,
    /// All that is judged is within the limits, but of the logits nothing is: the first token's experts are a matter of rounding.
    Undecided,
    /// The device couldn't compute everything.
    Failed,
}

/// What a device computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Found {
    /// Results of the cases.
    Cases {
        passed: usize,
        failed: usize,
        errors: usize,
        /// What is wrong with the first that doesn't pass.
        problem: Option<String>,
    },
    /// The parts of the model, against the reference.
    Model {
        parts: Vec<Measured>,
        /// The first part that isn't within the limits.
        parting: Option<Place>,
        /// The first place of the text after which another token is the likeliest.
        greedy: Option<Greedy>,
    },
    /// Why nothing was computed.
    Error(String),
}

/// A part of a model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    pub(crate) layer: Option<usize>,
    pub(crate) part: Part,
}

/// What a device computed of one part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measured {
    pub(crate) distance: Distance,
    /// Hash of the bits of all values in f32 (BLAKE3).
    pub(crate) hash: String,
    /// Whether these are the bits of the first device.
    pub(crate) bits_of_first: bool,
}

impl Found {
    /// The verdict on what a device computed.
    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::Error(_) => Verdict::Failed,
            Self::Cases { errors, .. } if *errors > 0 => Verdict::Failed,
            Self::Cases { failed, .. } if *failed > 0 => Verdict::Apart,
            Self::Cases { .. } => Verdict::Same,
            Self::Model {
                parting: Some(_), ..
            } => Verdict::Apart,
            Self::Model { parts, .. } => match parts.last() {
                Some(head) if head.distance.judged > 0 => Verdict::Same,
                _ => Verdict::Undecided,
            },
        }
    }
}

impl Subject {
    /// The entries in which two subjects must agree, by name.
    fn identity(&self) -> [(&'static str, String); 3] {
        let (kind, hash, tokens) = match self {
            Self::Cases { hash } => ("the bundled cases", hash, &[][..]),
            Self::Model { hash, tokens, .. } => ("a model", hash, &tokens[..]),
        };
        [
            ("results of", kind.to_owned()),
            ("the hash", hash.clone()),
            ("the tokens", format!("{tokens:?}")),
        ]
    }
}

impl Certificate {
    /// A certificate of this program.
    pub(crate) fn new(subject: Subject, limits: Limits, devices: Vec<Tested>) -> Self {
        let certificate = Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            program: Program {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                kernels: moebius_shaders::FINGERPRINT.to_owned(),
            },
            subject,
            limits,
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

    /// This certificate with the devices of `other`, which was read from `path`.
    ///
    /// # Errors
    /// [`CertificateError::Differs`] for one of other work, limits or programs.
    pub(crate) fn with(mut self, other: Self, path: &str) -> Result<Self, CertificateError> {
        let all = |of: &Self| {
            let [kind, hash, tokens] = of.subject.identity();
            let (program, limits) = (&of.program, format!("{:?}", of.limits));
            [
                kind,
                hash,
                tokens,
                ("the program's version", program.version.clone()),
                ("the fingerprint of kernels", program.kernels.clone()),
                ("the limits", limits),
            ]
        };
        for ((what, expected), (_, got)) in all(&self).into_iter().zip(all(&other)) {
            if expected != got {
                let path = path.to_owned();
                return Err(CertificateError::Differs {
                    path,
                    what,
                    expected,
                    got,
                });
            }
        }
        self.devices.extend(other.devices);
        Ok(self.compared())
    }

    /// This certificate, with the bits of all devices compared with those of the first that computed the model.
    fn compared(mut self) -> Self {
        let parts = |tested: &Tested| match &tested.found {
            Found::Model { parts, .. } => {
                let hashes = parts.iter().map(|part| part.hash.clone());
                Some(hashes.collect::<Vec<_>>())
            }
            Found::Cases { .. } | Found::Error(_) => None,
        };
        let first = self.devices.iter().find_map(parts).unwrap_or_default();
        for tested in &mut self.devices {
            if let Found::Model { parts, .. } = &mut tested.found {
                for (part, first) in parts.iter_mut().zip(&first) {
                    part.bits_of_first = part.hash == *first;
                }
            }
        }
        self
    }
}

#[cfg(test)]
#[path = "certificate_tests.rs"]
pub(crate) mod tests;
