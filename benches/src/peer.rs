//! PyTorch, run beside our own measurement by the Python on the path.

use crate::linear::LinearBench;
use crate::moe::MoeBench;
use burn::tensor::DType;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::process::{Command, Stdio};

const MOE: &str = include_str!("../peers/torch_moe.py");
const LINEAR: &str = include_str!("../peers/torch_linear.py");

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
    #[error("the peer needs `{python}` on the path ({reason}); put a Python with PyTorch first")]
    NoPython {
        /// What was started.
        python: &'static str,
        /// What the system said.
        reason: String,
    },
    /// The script failed.
    #[error("the PyTorch peer failed: {0} (`pip install torch` adds it)")]
    Failed(String),
}

/// What a peer is timed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// A forward without a graph.
    Forward,
    /// A forward and the gradients of x and all weights.
    Backward,
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

    /// The peer's result beside our FLOP/s.
    pub(crate) fn compared_with(self, our_rate: f64) -> Peer {
        Peer {
            name: self.name(),
            median_ms: self.median_ms,
            gflops: self.gflops,
            ratio: our_rate / 1e9 / self.gflops,
        }
    }
}

/// Runs the same layer in PyTorch on the CPU, as a loop over experts.
pub(crate) fn torch_moe(bench: &MoeBench, pass: Pass) -> Result<Figures, PeerError> {
    let dtype = match bench.dtype {
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        _ => "float32",
    };
    let tokens = bench.batch.saturating_mul(bench.seq);
    let MoeBench {
        hidden,
        inter,
        experts,
        top_k,
        ..
    } = *bench;
    let mut args = texts(&[hidden, inter, experts, top_k, tokens]);
    let gated = if bench.gated { "gated" } else { "plain" };
    let pass = match pass {
        Pass::Forward => "forward",
        Pass::Backward => "backward",
    };
    args.extend([dtype, gated, pass].map(str::to_string));
    run(MOE, &args)
}

/// Runs the same product in PyTorch on the CPU, in f32 whatever ours is in.
pub(crate) fn torch_linear(bench: &LinearBench) -> Result<Figures, PeerError> {
    run(LINEAR, &texts(&[bench.m, bench.n, bench.k]))
}

fn texts(sizes: &[usize]) -> Vec<String> {
    sizes.iter().map(usize::to_string).collect()
}

/// Runs a script that ends with a line of [`Figures`].
fn run(script: &str, args: &[String]) -> Result<Figures, PeerError> {
    let python = "python3";
    let failed = |error: std::io::Error| PeerError::NoPython {
        python,
        reason: error.to_string(),
    };
    let mut child = Command::new(python)
        .arg("-")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A failed write shows as a failed script below.
        let _ = stdin.write_all(script.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    let last_line = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        text.lines().next_back().unwrap_or("no output").to_string()
    };
    if !output.status.success() {
        return Err(PeerError::Failed(last_line(&output.stderr)));
    }
    serde_json::from_str(&last_line(&output.stdout))
        .map_err(|error| PeerError::Failed(error.to_string()))
}
