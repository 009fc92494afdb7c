//! PyTorch and JAX, run beside our own measurement by the Python on the path.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::process::{Command, Stdio};

#[cfg(feature = "flex")]
const TRAINING_STEP: &str = include_str!("../peers/jax_training_step.py");

/// A peer's result in the same run.
#[derive(Clone, Debug, Serialize)]
pub struct Peer {
    /// Name and version.
    pub name: String,
    /// Median milliseconds.
    pub median_ms: f64,
    /// GFLOP/s.
    pub gflops: f64,
    /// Our GFLOP/s over the peer's.
    pub ratio: f64,
}

/// Why the peer has no numbers.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// No interpreter.
    #[error("the peer needs `{python}` on the path ({reason}); put a Python with {library} first")]
    NoPython {
        /// What was started.
        python: &'static str,
        /// What it should have.
        library: &'static str,
        /// What the system said.
        reason: String,
    },
    /// The script failed.
    #[error("the {library} peer failed: {reason} (`pip install {package}` adds it)")]
    Failed {
        /// What it uses.
        library: &'static str,
        /// What brings that.
        package: &'static str,
        /// The last line of its errors.
        reason: String,
    },
    /// The file with its numbers can't be written.
    #[error("the peer's data: {0}")]
    Data(String),
}

/// What the script prints.
#[derive(Clone, Deserialize)]
pub(crate) struct Figures {
    version: String,
    median_ms: f64,
    gflops: f64,
}

impl Figures {
    /// Name and version.
    pub(crate) fn name(&self) -> String {
        format!("PyTorch {}", self.version)
    }

    /// Median seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.median_ms / 1e3
    }

    /// The peer's result beside our GFLOP/s.
    pub(crate) fn compared_with(self, ours: f64) -> Peer {
        Peer {
            name: self.name(),
            median_ms: self.median_ms,
            gflops: self.gflops,
            ratio: ours / self.gflops,
        }
    }
}

/// Runs a script with its arguments on PyTorch, on the CPU, where that is `wanted`.
pub(crate) fn torch(
    wanted: bool,
    progress: &mut dyn FnMut(&str),
    script: impl FnOnce() -> (&'static str, Vec<String>),
) -> Result<Option<Figures>, PeerError> {
    if !wanted {
        return Ok(None);
    }
    progress("measuring PyTorch");
    let (script, args) = script();
    run(&TORCH, script, &args).map(Some)
}

/// What the script of the training prints.
#[cfg(feature = "flex")]
#[derive(Clone, Deserialize)]
pub(crate) struct TrainingFigures {
    version: String,
    platform: String,
    pub(crate) losses: Vec<f32>,
    pub(crate) median_ms: f64,
    pub(crate) best_ms: f64,
}

#[cfg(feature = "flex")]
impl TrainingFigures {
    /// Name, version and where it ran.
    pub(crate) fn name(&self) -> String {
        format!("JAX {} on {}", self.version, self.platform)
    }
}

/// Runs the training whose weights and batches are in `data` in JAX, on the device of its environment.
#[cfg(feature = "flex")]
pub(crate) fn jax_training(
    data: &std::path::Path,
    sizes: &[usize],
    rate: f64,
) -> Result<TrainingFigures, PeerError> {
    let mut args = vec![data.display().to_string()];
    args.extend(texts(sizes));
    args.push(rate.to_string());
    run(&JAX, TRAINING_STEP, &args)
}

pub(crate) fn texts(sizes: &[usize]) -> Vec<String> {
    sizes.iter().map(usize::to_string).collect()
}

/// A library of Python, and the package that brings it.
struct Library {
    name: &'static str,
    package: &'static str,
}

const TORCH: Library = Library {
    name: "PyTorch",
    package: "torch",
};
#[cfg(feature = "flex")]
const JAX: Library = Library {
    name: "JAX",
    package: "jax",
};

/// Runs a script whose last line is JSON.
fn run<T: DeserializeOwned>(
    library: &Library,
    script: &str,
    args: &[String],
) -> Result<T, PeerError> {
    let python = "python3";
    let missing = |error: std::io::Error| PeerError::NoPython {
        python,
        library: library.name,
        reason: error.to_string(),
    };
    let failed = |reason: String| PeerError::Failed {
        library: library.name,
        package: library.package,
        reason,
    };
    let mut child = Command::new(python)
        .arg("-")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(missing)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A failed write shows as a failed script below.
        let _ = stdin.write_all(script.as_bytes());
    }
    let output = child.wait_with_output().map_err(missing)?;
    let last_line = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        text.lines().next_back().unwrap_or("no output").to_string()
    };
    if !output.status.success() {
        return Err(failed(last_line(&output.stderr)));
    }
    serde_json::from_str(&last_line(&output.stdout)).map_err(|error| failed(error.to_string()))
}
