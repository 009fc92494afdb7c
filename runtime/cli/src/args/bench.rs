//! The command line of `bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use moebius::moe::Keep;
use moebius_benches::attention::AttentionBench;
use moebius_benches::decode::DecodeBench;
use moebius_benches::linear::LinearBench;
use moebius_benches::moe::MoeBench;
use moebius_benches::options::{Named, named, positive};
use moebius_host::Simd;

use super::{EngineArgs, ModelArgs, TraceArgs};

/// `bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// What to measure.
    #[command(subcommand)]
    pub(crate) what: BenchCommand,
}

/// A benchmark.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// One mixture-of-experts layer, forward or both ways
    ///
    /// The result is compared with the reference first; one that does not verify is exit 1, and no
    /// figure is printed. Times are medians of synchronised runs. A backward pass counts as twice
    /// the forward's FLOPs.
    #[command(verbatim_doc_comment)]
    #[command(after_help = "\
Examples:
  moebius bench moe
  moebius bench moe --hidden 1024 --inter 4096 --device cpu --peer torch
  moebius bench moe --backward --keep inputs --device flex
  moebius bench moe --compare-fine --hidden 1024
  moebius bench moe --batch 1 --seq 1 --experts 64 --top-k 8 --gated --json")]
    Moe(Measure<BenchMoeArgs>),
    /// One linear layer with FP8 weights against float ones
    ///
    /// Sampled outputs of every layer are compared with dot products in f64 first; one that does not
    /// verify is exit 1, and no figure is printed. Times are medians of synchronised runs, in turns.
    /// GB/s count the weights once; up to 16 tokens on the processor go over copies of the weights that
    /// its caches don't hold. On flex our layers lie in large pages of memory, as those of a model do. The
    /// floor is what arithmetic at the peak, or reading at the speed of memory, takes at least.
    #[command(verbatim_doc_comment)]
    #[command(after_help = "\
Examples:
  moebius bench linear
  moebius bench linear --m 8 --granularity block128 --device cpu --peer torch
  moebius bench linear --m 512 --n 512 --k 512 --device wgpu
  moebius bench linear --device flex --json > before.json
  moebius bench linear --device flex --compare before.json
  moebius bench linear --format e5m2 --granularity mx --activations dynamic-row --json")]
    Linear(Measure<LinearBench>),
    /// Attention, forward or both ways, beside other implementations
    ///
    /// Sampled outputs and gradients are compared with the reference first; one that does not verify
    /// is exit 1, and no figure is printed. Times are medians of synchronised runs, in turns. GFLOP/s
    /// count the pairs of a query and a key that it sees; a backward pass counts as twice the forward.
    #[command(verbatim_doc_comment)]
    #[command(after_help = "\
Examples:
  moebius bench attention --causal --device cpu --peer torch
  moebius bench attention --causal --backward --device cpu --peer torch,burn
  moebius bench attention --tokens 8192 --window 256 --peer full
  moebius bench attention --queries 1 --keys 4096 --heads 32 --kv-heads 8 --head-dim 128 --json")]
    Attention(Measure<AttentionBench>),
    /// One token over the tokens that a cache keeps
    ///
    /// Sampled heads of every format are compared with the reference first; one that does not verify
    /// is exit 1, and no figure is printed. Times are medians of synchronised runs, in turns. GB/s
    /// count the kept tokens once.
    #[command(verbatim_doc_comment)]
    #[command(after_help = "\
Examples:
  moebius bench decode --device cpu
  moebius bench decode --batch 4 --tokens 2048 --format f32,bf16,e4m3 --paged")]
    Decode(Measure<DecodeBench>),
    /// A published model that answers several requests
    ///
    /// Requests together against the same one by one, and the first token of a prompt whose beginning the
    /// cache knows against one that is new. With --speculate or --draft-model also the requests together
    /// with proposed tokens against the same without. Tokens must be the same both ways; where they are not
    /// it is exit 1, and no figure is printed.
    #[command(verbatim_doc_comment)]
    #[command(after_help = "\
Examples:
  moebius bench engine
  moebius bench engine --model SmolLM2 --streams 8 --tokens 64 --dtype fp8 --json
  moebius bench engine --model SmolLM2 --streams 1 --tokens 256 --speculate ngram:4,8")]
    Engine(BenchEngineArgs),
    /// A chart of speed over tokens, from results that were measured before
    ///
    /// Reads what `moebius bench … --json` printed, any number of results a file, which may differ in
    /// their tokens, devices and instruction sets, and writes an SVG with a line for each device.
    /// Measures nothing.
    #[command(verbatim_doc_comment)]
    #[command(after_help = "\
Examples:
  for m in 1 4 16 64 512; do moebius bench linear --m $m --device cpu --json; done > linear.json
  moebius bench chart linear.json --out linear.svg")]
    Chart(BenchChartArgs),
}

impl BenchCommand {
    /// Options that the benchmarks of layers share; `None` for `engine`, which has none of them, and for `chart`, which
    /// measures nothing.
    pub(crate) fn how(&self) -> Option<&How> {
        match self {
            Self::Moe(measure) => Some(&measure.how),
            Self::Linear(measure) => Some(&measure.how),
            Self::Attention(measure) => Some(&measure.how),
            Self::Decode(measure) => Some(&measure.how),
            Self::Engine(_) | Self::Chart(_) => None,
        }
    }

    /// Whether the benchmark writes a trace; `None` for `chart`, which measures nothing.
    pub(crate) fn trace(&self) -> Option<&TraceArgs> {
        match self {
            Self::Engine(args) => Some(&args.trace),
            _ => self.how().map(|how| &how.trace),
        }
    }
}

/// A benchmark, and what is made of its result.
#[derive(Debug, Args)]
pub(crate) struct Measure<T: Args> {
    /// What is measured.
    #[command(flatten)]
    pub(crate) bench: T,
    /// What is made of it.
    #[command(flatten)]
    pub(crate) how: How,
}

/// Options of every benchmark.
#[derive(Debug, Args)]
pub(crate) struct How {
    /// Vector instructions to use at most, of those that the processor has: avx512bf16, avx512, avx2, neon, simd128 or portable; a
    /// device that can't be held to them is an error.
    #[arg(long, value_name = "SET")]
    pub(crate) simd: Option<Simd>,
    /// Compare with a result that --json printed before, of the same work, device and instruction set; exit 1 where
    /// something is slower.
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
}

/// `bench engine`.
#[derive(Debug, Args)]
pub(crate) struct BenchEngineArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    /// Requests at the same time.
    #[arg(long, value_name = "N", default_value = "8", value_parser = positive)]
    pub(crate) streams: usize,
    /// Tokens of each prompt, of the bundled text.
    #[arg(long, value_name = "N", default_value = "32", value_parser = positive)]
    pub(crate) prompt: usize,
    /// Tokens of each answer.
    #[arg(long, value_name = "N", default_value = "64", value_parser = positive)]
    pub(crate) tokens: usize,
    /// Tokens of the beginning that is known.
    #[arg(long, value_name = "N", default_value = "256", value_parser = positive)]
    pub(crate) known: usize,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
}

/// `bench chart`.
#[derive(Debug, Args)]
pub(crate) struct BenchChartArgs {
    /// Results, as --json printed them.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// SVG file to write.
    #[arg(long, value_name = "SVG")]
    pub(crate) out: PathBuf,
}

/// `bench moe`.
#[derive(Debug, Args)]
pub(crate) struct BenchMoeArgs {
    /// The layer.
    #[command(flatten)]
    pub(crate) bench: MoeBench,
    /// Measure forward and backward, with the gradients of the batch and all weights.
    #[arg(long)]
    pub(crate) backward: bool,
    /// What the forward keeps for the backward pass [default: one run of each].
    #[arg(long, value_name = "K", requires = "backward", value_parser = named(KEEPS))]
    pub(crate) keep: Option<Keep>,
    /// Measure 64 experts of hidden/2, 8 per token, against 8 of 2 × hidden, 2 per token.
    #[arg(long, conflicts_with_all = ["backward", "peer", "inter", "experts", "top_k"])]
    pub(crate) compare_fine: bool,
}

/// Balances of memory and time by name, for `bench moe --backward`.
const KEEPS: [Named<Keep>; 2] = [
    (
        "first-product",
        "The first product of every slot",
        Keep::FirstProduct,
    ),
    (
        "inputs",
        "The inputs alone; the first product is computed again",
        Keep::Inputs,
    ),
];
