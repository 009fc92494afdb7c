//! Errors that end a command, each with what can be done about it.

use std::fmt::Display;
use std::io;

use moebius_engine::EngineError;

/// Why a command gave no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// Standard output is closed or full.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    WriteFile { path: String, source: io::Error },
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    ReadFile { path: String, source: io::Error },
    /// The report has no JSON form.
    #[error("cannot write the report as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// clap can't read the command line, or was asked for help or the version.
    #[error(transparent)]
    Line(#[from] clap::Error),
    /// The command line does not make sense.
    #[error("{message}")]
    Usage {
        message: String,
        hint: Option<String>,
    },
    /// A device, or the library on it, failed.
    #[error(transparent)]
    Device(#[from] moebius::Error),
    /// A launch was lost, so the result is invalid.
    #[error("a kernel could not be launched: {0}")]
    Launch(String),
    /// `auto` found no device that can be used.
    #[error(transparent)]
    NoDevice(moebius_device::OpenError),
    /// A result of a benchmark can't be used for comparison or a chart.
    #[error(transparent)]
    Result(#[from] crate::results::ResultError),
    /// A certificate can't be united with others.
    #[error(transparent)]
    Certificate(#[from] crate::certificate::CertificateError),
    /// The process can't be limited to the vector instructions asked for.
    #[error(transparent)]
    Simd(#[from] moebius_host::SimdError),
    /// A benchmark gave no numbers.
    #[error(transparent)]
    Bench(#[from] moebius_benches::BenchError),
    /// A training can't start or continue.
    #[error(transparent)]
    Train(#[from] moebius_model::Error),
    /// A conversion of weights failed.
    #[error(transparent)]
    Weights(#[from] moebius_weights::WeightsError),
    /// A package can't be made, or isn't what it should be.
    #[error(transparent)]
    Package(#[from] moebius_weights::package::PackageError),
    /// A model can't be fetched, or isn't in the cache.
    #[error(transparent)]
    Hub(#[from] crate::hub::HubError),
    /// A tokenizer or a chat template can't be used.
    #[error(transparent)]
    Text(#[from] moebius_text::Error),
    /// An answer can't be held to a schema.
    #[error(transparent)]
    Grammar(#[from] moebius_grammar::GrammarError),
    /// A model couldn't answer.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A prompt of a file can't be answered.
    #[error("{place}: {error}")]
    Prompt {
        /// The file and the line.
        place: String,
        error: Box<CliError>,
    },
    /// The options for choosing tokens are invalid.
    #[error(transparent)]
    Sampling(#[from] moebius_ops::Mismatch),
    /// No token could be chosen.
    #[error(transparent)]
    Sample(#[from] moebius_engine::SampleError),
    /// The device has no memory for an answer's next tokens.
    #[error(transparent)]
    NoRoom(#[from] moebius_model::NoRoom),
    /// A server could not start, or ended.
    #[error(transparent)]
    Serve(#[from] moebius_serve::ServeError),
    /// A demo could not be run to its end.
    #[error("{0}")]
    Demo(String),
    /// Kernel emission failed.
    #[error("{0}")]
    Emit(String),
}

impl CliError {
    /// An error for a command line that does not make sense, with a hint on what to write instead.
    pub(crate) fn usage(message: impl Into<String>, hint: Option<&str>) -> Self {
        Self::Usage {
            message: message.into(),
            hint: hint.map(str::to_owned),
        }
    }

    /// This error as that of a prompt at `place` of a file.
    pub(crate) fn of_prompt(self, place: String) -> Self {
        let error = Box::new(self);
        Self::Prompt { place, error }
    }

    /// Function that makes the error for `path` that could not be read.
    pub(crate) fn read(path: impl Display) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_string();
        move |source| Self::ReadFile { path, source }
    }

    /// Function that makes the error for `path` that could not be written.
    pub(crate) fn write(path: impl Display) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_string();
        move |source| Self::WriteFile { path, source }
    }

    /// Exit status of the command: 70 (`EX_SOFTWARE`) for an engine that failed while it served, for supervisors that start it again.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::Serve(moebius_serve::ServeError::Engine(_)) => 70,
            _ => 2,
        }
    }

    /// A hint on what the user can do, if there is one.
    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Usage { hint, .. } => return hint.clone(),
            Self::Prompt { error, .. } => return error.hint(),
            Self::Hub(e) => return e.hint(),
            Self::Result(e) => result_hint(e)?,
            Self::Simd(_) | Self::Bench(moebius_benches::BenchError::Held(_)) => {
                "without --simd and MOEBIUS_SIMD the widest are used"
            }
            Self::Train(moebius_model::Error::NoRoom(_))
            | Self::Engine(EngineError::Model(moebius_model::Error::NoRoom(_)))
            | Self::NoRoom(_) => {
                "fewer tokens, --dtype fp8, --weights q4_k, --kv-cache-dtype fp8 and --expert-cache need less, and --memory-margin 0 leaves no room for a step, where the command has them; `moebius devices` shows what memory there is"
            }
            Self::Train(e) => train_hint(e)?,
            Self::Weights(e)
            | Self::Package(moebius_weights::package::PackageError::Written(e)) => weights_hint(e)?,
            Self::Serve(moebius_serve::ServeError::Insecure { .. }) => {
                "--keys FILE names those who may use it; --insecure answers everybody"
            }
            Self::Emit(_) => "`moebius emit --list` shows every kernel and target",
            Self::Device(_) | Self::NoDevice(_) => {
                "`moebius doctor` tests what can be used here, and says what to do about the rest"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// What clap says of a line that it can't read, without its usage: the message, and its tips if there are any.
pub(crate) fn explain(error: &clap::Error) -> (String, Option<String>) {
    let text = error.to_string();
    // clap's message is `error: …`, perhaps a list on lines of its own, perhaps `tip: …`, then `Usage: …`.
    let body = text.split("Usage:").next().unwrap_or(&text);
    let mut message = Vec::new();
    let mut tips = Vec::new();
    for line in body
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with("For more information"))
    {
        match line.strip_prefix("tip: ") {
            Some(tip) => tips.push(tip),
            None => message.push(line.strip_prefix("error: ").unwrap_or(line)),
        }
    }
    let hint = (!tips.is_empty()).then(|| tips.join("; "));
    (message.join(" "), hint)
}

fn result_hint(error: &crate::results::ResultError) -> Option<&'static str> {
    use crate::results::ResultError;
    Some(match error {
        ResultError::Differs { .. } => "measure both with the same options, device and processors",
        ResultError::NotJson { .. } | ResultError::Foreign { .. } => {
            "`moebius bench … --json > FILE` writes one"
        }
        ResultError::Unverified { .. } | ResultError::Read { .. } => return None,
    })
}

fn train_hint(error: &moebius_model::Error) -> Option<&'static str> {
    use moebius_model::{CheckpointError, Error};
    Some(match error {
        Error::Checkpoint(CheckpointError::Missing { .. }) => {
            "leave --resume out to begin a training there"
        }
        Error::Checkpoint(CheckpointError::Other { .. }) => {
            "what is left out is taken from the checkpoint"
        }
        Error::Checkpoint(CheckpointError::Foreign { .. }) => "name another folder",
        Error::NoRoomToTrain(_) => {
            "a smaller --batch or --seq and --offload-optimizer need less, as does --checkpoint-activations for a text in f32, and --memory-margin 0 lets everything be tried; `moebius devices` shows what memory there is"
        }
        Error::Weights(e) => return weights_hint(e),
        Error::Moebius(_) => {
            "`moebius train --help` shows the sizes, `moebius devices` the devices"
        }
        _ => return None,
    })
}

fn weights_hint(error: &moebius_weights::WeightsError) -> Option<&'static str> {
    use moebius_weights::WeightsError;
    Some(match error {
        WeightsError::MissingScale { .. } => {
            "--assume-scale-one takes the codes for the values, if that is what they are"
        }
        WeightsError::TargetExists { .. } | WeightsError::TargetIsSource { .. } => {
            "name another folder with --out"
        }
        WeightsError::FileExists(_) => "name another file with --out",
        WeightsError::Busy { .. } => "if no other run writes there, remove it",
        WeightsError::SkippedFp8 { .. } => {
            "convert it as well, or ask for the format and granularity that it has"
        }
        _ => return None,
    })
}
