//! Runs PyTorch and JAX beside our own measurement, with the Python on the path.

use crate::Progress;
use crate::timing::{Speed, Spread, Timing};
use burn::tensor::DType;
use clap::ValueEnum;
use moebius_host::{Simd, simd};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Implementations that are measured beside ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchPeer {
    /// PyTorch: a loop over experts, or its linear layer.
    Torch,
}

/// Result of a peer in the same run.
#[derive(Clone, Debug, Serialize)]
pub struct Peer {
    /// Name and version of the peer.
    pub name: String,
    /// Time and GFLOP/s of the peer.
    #[serde(flatten)]
    pub speed: Speed,
    /// Our speed divided by the peer's.
    pub ratio: f64,
}

/// Why the peer has no numbers.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// There is no Python interpreter.
    #[error("the peer needs `{python}` on the path ({reason}); put a Python with {library} first")]
    NoPython {
        /// Name of the program that was started.
        python: &'static str,
        /// Name of the library that it should have.
        library: &'static str,
        /// The system's error message.
        reason: String,
    },
    /// The peer's script failed.
    #[error("the {library} peer failed: {reason} (`pip install {package}` adds it)")]
    Failed {
        /// Name of the library that the script uses.
        library: &'static str,
        /// Name of the package that brings the library.
        package: &'static str,
        /// Last line of the script's error output.
        reason: String,
    },
    /// The file with the peer's input can't be written.
    #[error("the peer's data: {0}")]
    Data(String),
}

/// Figures that PyTorch's script prints.
#[derive(Clone, Deserialize)]
pub(crate) struct Figures {
    version: String,
    median_ms: f64,
    gflops: f64,
    #[serde(flatten)]
    spread: Spread,
}

impl Figures {
    /// Name and version of the peer.
    pub(crate) fn name(&self) -> String {
        format!("PyTorch {}", self.version)
    }

    /// The script's repetitions as a [`Timing`].
    pub(crate) fn timing(&self) -> Timing {
        let Spread { runs, q1_ms, q3_ms } = self.spread;
        Timing {
            seconds: self.median_ms / 1e3,
            quartiles: [q1_ms / 1e3, q3_ms / 1e3],
            runs,
        }
    }

    /// The peer's result, compared with our GFLOP/s.
    pub(crate) fn compared_with(self, ours: f64) -> Peer {
        Peer {
            name: self.name(),
            speed: Speed {
                median_ms: self.median_ms,
                spread: self.spread,
                gflops: self.gflops,
            },
            ratio: ours / self.gflops,
        }
    }
}

/// Runs a script with its arguments on PyTorch on the CPU, if `peer` asks for that.
pub(crate) fn torch(
    peer: Option<BenchPeer>,
    progress: Progress,
    script: impl FnOnce() -> (&'static str, Vec<String>),
) -> Result<Option<Figures>, PeerError> {
    let Some(BenchPeer::Torch) = peer else {
        return Ok(None);
    };
    progress("measuring PyTorch");
    let (script, args) = script();
    run(&TORCH, script, &args).map(Some)
}

pub(crate) fn texts(sizes: &[usize]) -> Vec<String> {
    sizes.iter().map(usize::to_string).collect()
}

/// A Python library, and the package that brings it.
pub(crate) struct Library {
    name: &'static str,
    package: &'static str,
}

const TORCH: Library = Library {
    name: "PyTorch",
    package: "torch",
};
#[cfg(feature = "flex")]
pub(crate) const JAX: Library = Library {
    name: "JAX",
    package: "jax",
};

/// PyTorch's name of a type.
pub(crate) fn dtype(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        _ => "float32",
    }
}

impl Library {
    /// Starts Python with `args` and pipes for its input and output.
    fn start(&self, args: &[String]) -> Result<Child, PeerError> {
        let child = Command::new(PYTHON)
            .args(args)
            .envs(torch_environment())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        child.map_err(|error| self.missing(&error))
    }

    fn missing(&self, error: &std::io::Error) -> PeerError {
        PeerError::NoPython {
            python: PYTHON,
            library: self.name,
            reason: error.to_string(),
        }
    }

    fn failed(&self, reason: impl ToString) -> PeerError {
        PeerError::Failed {
            library: self.name,
            package: self.package,
            reason: reason.to_string(),
        }
    }
}

const PYTHON: &str = "python3";

/// Environment variables that hold PyTorch to fewer vector instructions, if this process is held to fewer.
fn torch_environment() -> Vec<(&'static str, &'static str)> {
    match (simd(), Simd::widest()) {
        (held, widest) if held < widest => torch_variables(held),
        _ => Vec::new(),
    }
}

/// Variables of ATen, oneDNN and MKL for the vector instructions `held`.
fn torch_variables(held: Simd) -> Vec<(&'static str, &'static str)> {
    let [aten, one_dnn, mkl] = match held {
        Simd::Avx512 => ["avx512", "AVX512_CORE", "AVX512"],
        Simd::Avx2 => ["avx2", "AVX2", "AVX2"],
        _ => ["default", "SSE41", "SSE4_2"],
    };
    vec![
        ("ATEN_CPU_CAPABILITY", aten),
        ("ONEDNN_MAX_CPU_ISA", one_dnn),
        ("MKL_ENABLE_INSTRUCTIONS", mkl),
    ]
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines().next_back().unwrap_or("no output").to_string()
}

/// Runs a script and parses the last line of its output as JSON.
pub(crate) fn run<T: DeserializeOwned>(
    library: &Library,
    script: &str,
    args: &[String],
) -> Result<T, PeerError> {
    let mut child = library.start(&[&["-".to_string()], args].concat())?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the write fails, the script fails below.
        let _ = stdin.write_all(script.as_bytes());
    }
    let output = child.wait_with_output();
    let output = output.map_err(|error| library.missing(&error))?;
    if !output.status.success() {
        return Err(library.failed(last_line(&output.stderr)));
    }
    serde_json::from_str(&last_line(&output.stdout)).map_err(|error| library.failed(error))
}

/// A PyTorch script that runs on demand, so that both sides can take turns. It first prints a line with its version, then
/// answers each input line with the seconds of one run.
pub(crate) struct Turns {
    child: Child,
    answers: BufReader<ChildStdout>,
    version: String,
}

impl Turns {
    /// Starts `script` and waits until it is ready.
    pub(crate) fn start(script: &str, args: &[String]) -> Result<Self, PeerError> {
        let mut child = TORCH.start(&[&["-c".to_string(), script.to_string()], args].concat())?;
        let stdout = child.stdout.take();
        let mut turns = Self {
            answers: BufReader::new(stdout.ok_or_else(|| TORCH.failed("no output"))?),
            child,
            version: String::new(),
        };
        turns.version = turns.answer()?;
        Ok(turns)
    }

    /// Name and version of the peer.
    pub(crate) fn name(&self) -> String {
        format!("PyTorch {}", self.version)
    }

    /// Runs once and returns the seconds that took.
    pub(crate) fn seconds(&mut self) -> Result<f64, PeerError> {
        if let Some(stdin) = &mut self.child.stdin {
            // If the write fails, the answer is missing below.
            let _ = stdin.write_all(b"\n");
        }
        self.answer()
    }

    /// Reads the next line of JSON; fails with the script's last error line if there is none.
    fn answer<T: DeserializeOwned>(&mut self) -> Result<T, PeerError> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        if read.is_ok_and(|read| read > 0) {
            return serde_json::from_str(&line).map_err(|error| TORCH.failed(error));
        }
        let mut errors = Vec::new();
        if let Some(stderr) = &mut self.child.stderr {
            // If the read fails, only the error message lacks its reason.
            let _ = stderr.read_to_end(&mut errors);
        }
        Err(TORCH.failed(last_line(&errors)))
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        // The script ends without further input, unless it hangs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pytorch_is_told_in_its_own_words() {
        let avx2 = torch_variables(Simd::Avx2);
        assert!(avx2.contains(&("ATEN_CPU_CAPABILITY", "avx2")));
        assert!(avx2.contains(&("ONEDNN_MAX_CPU_ISA", "AVX2")));
        assert!(avx2.contains(&("MKL_ENABLE_INSTRUCTIONS", "AVX2")));
        let portable = torch_variables(Simd::Portable);
        assert!(portable.contains(&("ATEN_CPU_CAPABILITY", "default")));
    }
}
