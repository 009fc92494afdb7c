//! The benchmark of attention: one call on q, k and v, with or without gradients, compared with other implementations.

mod contenders;
mod setup;

use crate::options::{DTYPES, element, named, positive};
use crate::oracle::{GRADIENTS_OVER_OUTPUTS, tolerance};
use crate::peer::{self, Peer, Turns};
use crate::timing::seconds_of;
use crate::{BenchError, Checked, FLOPS_OF_FORWARD, Measurement, Progress};
use burn::tensor::DType;
use clap::{Args, ValueEnum};
use moebius::{Device, Error};
use moebius_device::process_memory;
use moebius_ops::attention::{Problem, Rule, Rules, Sizes};
use moebius_ops::{Fault, Mismatch};
use serde::Serialize;
use setup::{Setup, Way};

/// What is measured, as the options of a command.
#[derive(Clone, Debug, Args)]
pub struct AttentionBench {
    /// Sequences.
    #[arg(long, value_name = "N", default_value = "1", value_parser = positive)]
    pub batch: usize,
    /// Query heads.
    #[arg(long, value_name = "N", default_value = "8", value_parser = positive)]
    pub heads: usize,
    /// Key and value heads, a divisor of the query heads [default: as many].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub kv_heads: Option<usize>,
    /// Queries and keys of a sequence.
    #[arg(long, value_name = "N", default_value = "2048", value_parser = positive)]
    pub tokens: usize,
    /// Queries of a sequence, in place of --tokens.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub queries: Option<usize>,
    /// Keys of a sequence, in place of --tokens.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub keys: Option<usize>,
    /// Values of a head, at most 256.
    #[arg(long, value_name = "N", default_value = "64", value_parser = positive)]
    pub head_dim: usize,
    /// No later keys; the last query is beside the last key.
    #[arg(long)]
    pub causal: bool,
    /// Only the last N keys, the query's own among them; no later ones.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub window: Option<usize>,
    /// Measure forward and backward, with the gradients of q, k and v.
    #[arg(long)]
    pub backward: bool,
    /// Element type of q, k and v; sums are f32.
    #[arg(long, value_name = "T", default_value = "f32", value_parser = named(DTYPES))]
    pub dtype: DType,
    /// Device to measure: auto, wgpu[:n], vulkan[:n], cuda[:n], rocm[:n], cpu, flex or xla:{cpu,tpu,cuda}[:n].
    #[arg(long, value_name = "D", default_value = "auto")]
    pub device: Device,
    /// Measure these, too, in the same run; a list with commas.
    #[arg(long = "peer", value_name = "P", value_delimiter = ',')]
    pub peers: Vec<AttentionPeer>,
}

/// Another implementation, or ours of another problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AttentionPeer {
    /// PyTorch's `scaled_dot_product_attention` on the CPU.
    Torch,
    /// Burn's `attention` on the same device; it has no windows and no shared key heads.
    Burn,
    /// Burn's product, softmax and product, each a kernel, on the same device; neither has it.
    Composition,
    /// Ours on the same device, causal and without the window.
    Full,
}

/// Results of the benchmark. Outputs, and gradients if measured, are verified for ours and for all peers on this device.
#[derive(Clone, Debug, Serialize)]
pub struct AttentionReport {
    /// Our result; the bytes are those of q, k, v, o and the log-sum-exp, and of their gradients if measured.
    #[serde(flatten)]
    pub ours: Measurement,
    /// Number of (query, key) pairs in which the query sees the key, over all heads.
    pub pairs: u64,
    /// Floating-point operations: 4 · pairs · head size; with gradients, [`FLOPS_OF_FORWARD`] times as many.
    pub flops: u64,
    /// Peak resident bytes of this process up to the end of its second run, before any check or comparison; `None` where
    /// the system doesn't say.
    pub process_peak_bytes: Option<u64>,
    /// Results of the peers.
    pub peers: Vec<Peer>,
}

impl AttentionBench {
    /// Number of key and value heads.
    pub fn kv_heads(&self) -> usize {
        self.kv_heads.unwrap_or(self.heads)
    }

    /// Number of queries per sequence.
    pub fn queries(&self) -> usize {
        self.queries.unwrap_or(self.tokens)
    }

    /// Number of keys per sequence.
    pub fn keys(&self) -> usize {
        self.keys.unwrap_or(self.tokens)
    }

    /// The attention problem that the options describe.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](moebius::ErrorKind::Shape) for sizes that don't fit, no sequences, queries or keys,
    /// [`ErrorKind::Config`](moebius::ErrorKind::Config) for types or a window that don't fit, and for a window or shared key
    /// heads beside a peer that has none.
    pub fn problem(&self) -> Result<Problem, Error> {
        for (what, size) in [
            ("sequences", self.batch),
            ("queries", self.queries()),
            ("keys", self.keys()),
        ] {
            Mismatch::unless(size > 0, what, "at least 1", size)?;
        }
        self.check_peers()?;
        let problem = Problem::new(Sizes {
            batch: self.batch,
            heads: self.heads,
            kv_heads: self.kv_heads(),
            queries: self.queries(),
            keys: self.keys(),
            head_dim: self.head_dim,
            value_dim: self.head_dim,
        })?;
        let element = element(self.dtype)?;
        let window = |keys| Rule::Window(u32::try_from(keys).unwrap_or(u32::MAX));
        let causal = self.causal.then_some(Rule::Causal);
        let rules = Rules::new(self.window.map(window).or(causal))?;
        Ok(problem.with_element(element).with_rules(rules)?)
    }

    /// Checks that the options ask Burn's attention for nothing it lacks: windows or shared key heads.
    fn check_peers(&self) -> Result<(), Mismatch> {
        let burn = [AttentionPeer::Burn, AttentionPeer::Composition];
        if !self.peers.iter().any(|peer| burn.contains(peer)) {
            return Ok(());
        }
        if let Some(window) = self.window {
            let expected = "none beside Burn's attention, which has no windows";
            return Err(Fault::Config.error("window", expected, window));
        }
        if self.kv_heads() != self.heads {
            let expected = format!(
                "as many as query heads, {}, for Burn's attention",
                self.heads
            );
            return Err(Fault::Config.error("key heads", expected, self.kv_heads()));
        }
        Ok(())
    }

    /// Floating-point operations for a number of (query, key) pairs.
    fn flops(&self, pairs: u64) -> u64 {
        let passes = if self.backward { FLOPS_OF_FORWARD } else { 1 };
        passes * 4 * pairs * self.head_dim as u64
    }
}

/// Least number of bytes that have to be read or written.
fn floor_bytes(bench: &AttentionBench, problem: &Problem) -> u64 {
    let rows = 2 * (problem.query_rows() + problem.key_rows()) * bench.head_dim;
    let passes = if bench.backward { 2 } else { 1 };
    (passes * rows * bench.dtype.size() + 4 * problem.query_rows()) as u64
}

/// Verifies, then measures; `progress` is called with each step.
///
/// # Errors
/// [`BenchError`] when the sizes don't fit, the device refuses or fails, or a peer can't be run.
pub fn run(bench: &AttentionBench, progress: Progress) -> Result<AttentionReport, BenchError> {
    let problem = bench.problem()?;
    // PyTorch starts first, so that its absence shows before minutes are spent.
    let torch = start_torch(bench, progress)?;
    progress("making q, k and v");
    let setup = Setup::new(bench)?;
    progress("compiling");
    let first_ms = seconds_of(|| setup.run(Way::Ours))? * 1e3;
    setup.run(Way::Ours)?;
    let memory = process_memory();
    let measured = contenders::measure(bench, &setup, torch, progress)?;
    progress("measuring the peak");
    let ceilings = setup.place.ceilings()?;
    let pairs = problem.pairs();
    let flops = bench.flops(pairs);
    let allowed = if bench.backward {
        GRADIENTS_OVER_OUTPUTS
    } else {
        1.0
    };
    let checked = Checked::within(allowed * tolerance(bench.dtype), measured.max_rel_l2);
    let work = [flops, floor_bytes(bench, &problem)];
    let ran = setup.place.ran(Some(setup.variant));
    Ok(AttentionReport {
        ours: Measurement::new(ran, checked, (first_ms, measured.time), ceilings, work),
        pairs,
        flops,
        process_peak_bytes: memory.and_then(|memory| memory.peak_resident),
        peers: measured.peers,
    })
}

/// Starts PyTorch with tensors of the same shapes, waiting for its turns; `None` when it isn't asked for.
fn start_torch(bench: &AttentionBench, progress: Progress) -> Result<Option<Turns>, BenchError> {
    if !bench.peers.contains(&AttentionPeer::Torch) {
        return Ok(None);
    }
    progress("starting PyTorch");
    let mut args = peer::texts(&[
        bench.batch,
        bench.heads,
        bench.kv_heads(),
        bench.queries(),
        bench.keys(),
        bench.head_dim,
        bench.window.unwrap_or(0),
    ]);
    let causal = if bench.causal { "causal" } else { "all" };
    let pass = if bench.backward {
        "backward"
    } else {
        "forward"
    };
    args.extend([peer::dtype(bench.dtype), causal, pass].map(str::to_string));
    let script = include_str!("../../peers/torch_attention.py");
    Ok(Some(Turns::start(script, &args)?))
}
