//! The command line of `bench`.

use clap::{Args, Subcommand};
use moebius::moe::Keep;
use moebius_benches::attention::AttentionBench;
use moebius_benches::decode::DecodeBench;
use moebius_benches::linear::LinearBench;
use moebius_benches::moe::MoeBench;
use moebius_benches::options::{Named, named};

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
    Moe(BenchMoeArgs),
    /// One linear layer with FP8 weights against float ones
    ///
    /// Sampled outputs of every layer are compared with dot products in f64 first; one that does not
    /// verify is exit 1, and no figure is printed. Times are medians of synchronised runs, in turns.
    /// GB/s count the weights once.
    #[command(verbatim_doc_comment)]
    #[command(after_help = "\
Examples:
  moebius bench linear
  moebius bench linear --m 8 --granularity block128 --device cpu --peer torch
  moebius bench linear --m 512 --n 512 --k 512 --device wgpu
  moebius bench linear --format e5m2 --granularity mx --activations dynamic-row --json")]
    Linear(LinearBench),
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
    Attention(AttentionBench),
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
    Decode(DecodeBench),
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

/// Balances of memory and time of `bench --backward`.
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
