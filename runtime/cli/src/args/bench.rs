//! The command line of `bench`.

use burn::tensor::DType;
use clap::{Args, Subcommand, ValueEnum};
use moebius::attention::CacheFormat;
use moebius::fp8::{Activations, Fp8Format, Granularity};
use moebius::moe::Keep;
use moebius_benches::attention::AttentionPeer;
use moebius_device::Device;

use super::{FORMATS, Named, named, positive};

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
    Moe(BenchMoeArgs),
    /// One linear layer with FP8 weights against float ones
    ///
    /// Sampled outputs of every layer are compared with dot products in f64 first; one that does not
    /// verify is exit 1, and no figure is printed. Times are medians of synchronised runs, in turns.
    /// GB/s count the weights once.
    #[command(verbatim_doc_comment)]
    Linear(BenchLinearArgs),
    /// Attention, forward or both ways, beside other implementations
    ///
    /// Sampled outputs and gradients are compared with the reference first; one that does not verify
    /// is exit 1, and no figure is printed. Times are medians of synchronised runs, in turns. GFLOP/s
    /// count the pairs of a query and a key that it sees; a backward pass counts as twice the forward.
    #[command(verbatim_doc_comment)]
    Attention(BenchAttentionArgs),
    /// One token over the tokens that a cache keeps
    ///
    /// Sampled heads of every format are compared with the reference first; one that does not verify
    /// is exit 1, and no figure is printed. Times are medians of synchronised runs, in turns. GB/s
    /// count the kept tokens once.
    #[command(verbatim_doc_comment)]
    Decode(BenchDecodeArgs),
}

/// `bench moe`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  moebius bench moe
  moebius bench moe --hidden 1024 --inter 4096 --device cpu --peer torch
  moebius bench moe --backward --keep inputs --device flex
  moebius bench moe --compare-fine --hidden 1024
  moebius bench moe --batch 1 --seq 1 --experts 64 --top-k 8 --gated --json")]
pub(crate) struct BenchMoeArgs {
    /// Width of a token.
    #[arg(long, value_name = "N", default_value = "512", value_parser = positive)]
    pub(crate) hidden: usize,

    /// Width inside an expert [default: 4 × hidden].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) inter: Option<usize>,

    /// Number of experts.
    #[arg(long, value_name = "N", default_value = "8", value_parser = positive)]
    pub(crate) experts: usize,

    /// Experts per token.
    #[arg(long, value_name = "N", default_value = "2", value_parser = positive)]
    pub(crate) top_k: usize,

    /// Sequences.
    #[arg(long, value_name = "N", default_value = "32", value_parser = positive)]
    pub(crate) batch: usize,

    /// Tokens in a sequence.
    #[arg(long, value_name = "N", default_value = "128", value_parser = positive)]
    pub(crate) seq: usize,

    /// Element type of activations and weights; sums are f32.
    #[arg(long, value_name = "T", default_value = "f32", value_parser = named(DTYPES))]
    pub(crate) dtype: DType,

    /// Gated experts (SwiGLU) in place of two plain layers with relu.
    #[arg(long)]
    pub(crate) gated: bool,

    /// Device to measure: auto, wgpu[:n], vulkan[:n], cuda[:n], rocm[:n], cpu, flex or xla:{cpu,tpu,cuda}[:n].
    #[arg(long, value_name = "D", default_value = "auto")]
    pub(crate) device: Device,

    /// Measure another implementation in the same run.
    #[arg(long, value_name = "P")]
    pub(crate) peer: Option<BenchPeer>,

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

/// `bench linear`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  moebius bench linear
  moebius bench linear --m 8 --granularity block128 --device cpu --peer torch
  moebius bench linear --m 512 --n 512 --k 512 --device wgpu
  moebius bench linear --format e5m2 --granularity mx --activations dynamic-row --json")]
pub(crate) struct BenchLinearArgs {
    /// Tokens.
    #[arg(long, value_name = "N", default_value = "1", value_parser = positive)]
    pub(crate) m: usize,

    /// Outputs of the layer.
    #[arg(long, value_name = "N", default_value = "4096", value_parser = positive)]
    pub(crate) n: usize,

    /// Inputs of the layer.
    #[arg(long, value_name = "N", default_value = "4096", value_parser = positive)]
    pub(crate) k: usize,

    /// Format of the codes.
    #[arg(long, value_name = "F", default_value = "e4m3", value_parser = named(FORMATS))]
    pub(crate) format: Fp8Format,

    /// Weights that share a scale: all, an output's, 128 × 128, or 32 of an output's (a power of two).
    #[arg(long, value_name = "G", default_value = "row", value_parser = named(GRANULARITIES))]
    pub(crate) granularity: Granularity,

    /// Element type of activations, and of the float layers; sums are f32.
    #[arg(long, value_name = "T", default_value = "f32", value_parser = named(DTYPES))]
    pub(crate) dtype: DType,

    /// What the FP8 layer makes of activations: nothing, or E4M3 codes with a scale per token.
    #[arg(long, value_name = "A", default_value = "float", value_parser = named(ACTIVATIONS))]
    pub(crate) activations: Activations,

    /// Device to measure: auto, wgpu[:n], vulkan[:n], cuda[:n], rocm[:n], cpu, flex or xla:{cpu,tpu,cuda}[:n].
    #[arg(long, value_name = "D", default_value = "auto")]
    pub(crate) device: Device,

    /// Measure another implementation, in f32 on the CPU, in the same run.
    #[arg(long, value_name = "P")]
    pub(crate) peer: Option<BenchPeer>,
}

/// `bench attention`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  moebius bench attention --causal --device cpu --peer torch
  moebius bench attention --causal --backward --device cpu --peer torch,burn
  moebius bench attention --tokens 8192 --window 256 --peer full
  moebius bench attention --queries 1 --keys 4096 --heads 32 --kv-heads 8 --head-dim 128 --json")]
pub(crate) struct BenchAttentionArgs {
    /// Sequences.
    #[arg(long, value_name = "N", default_value = "1", value_parser = positive)]
    pub(crate) batch: usize,

    /// Query heads.
    #[arg(long, value_name = "N", default_value = "8", value_parser = positive)]
    pub(crate) heads: usize,

    /// Key and value heads, a divisor of the query heads [default: as many].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) kv_heads: Option<usize>,

    /// Queries and keys of a sequence.
    #[arg(long, value_name = "N", default_value = "2048", value_parser = positive)]
    pub(crate) tokens: usize,

    /// Queries of a sequence, in place of --tokens.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) queries: Option<usize>,

    /// Keys of a sequence, in place of --tokens.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) keys: Option<usize>,

    /// Values of a head, at most 256.
    #[arg(long, value_name = "N", default_value = "64", value_parser = positive)]
    pub(crate) head_dim: usize,

    /// No later keys; the last query is beside the last key.
    #[arg(long)]
    pub(crate) causal: bool,

    /// Only the last N keys, the query's own among them; no later ones.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) window: Option<usize>,

    /// Measure forward and backward, with the gradients of q, k and v.
    #[arg(long)]
    pub(crate) backward: bool,

    /// Element type of q, k and v; sums are f32.
    #[arg(long, value_name = "T", default_value = "f32", value_parser = named(DTYPES))]
    pub(crate) dtype: DType,

    /// Device to measure: auto, wgpu[:n], vulkan[:n], cuda[:n], rocm[:n], cpu, flex or xla:{cpu,tpu,cuda}[:n].
    #[arg(long, value_name = "D", default_value = "auto")]
    pub(crate) device: Device,

    /// Measure these, too, in the same run; a list with commas.
    #[arg(long, value_name = "P", value_delimiter = ',', value_parser = named(ATTENTION_PEERS))]
    pub(crate) peer: Vec<AttentionPeer>,
}

/// `bench decode`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  moebius bench decode --device cpu
  moebius bench decode --batch 4 --tokens 2048 --format f32,bf16,e4m3 --paged")]
pub(crate) struct BenchDecodeArgs {
    /// Sequences.
    #[arg(long, value_name = "N", default_value = "1", value_parser = positive)]
    pub(crate) batch: usize,

    /// Query heads.
    #[arg(long, value_name = "N", default_value = "32", value_parser = positive)]
    pub(crate) heads: usize,

    /// Key and value heads, a divisor of the query heads.
    #[arg(long, value_name = "N", default_value = "8", value_parser = positive)]
    pub(crate) kv_heads: usize,

    /// Tokens of a sequence, the new one among them.
    #[arg(long, value_name = "N", default_value = "32768", value_parser = positive)]
    pub(crate) tokens: usize,

    /// Values of a head, a multiple of 8 and at most 256.
    #[arg(long, value_name = "N", default_value = "64", value_parser = positive)]
    pub(crate) head_dim: usize,

    /// Keep tokens in pages of 16.
    #[arg(long)]
    pub(crate) paged: bool,

    /// How tokens are kept; a list with commas.
    #[arg(
        long, value_name = "F", value_delimiter = ',', default_value = "f32,e4m3",
        value_parser = named(CACHE_FORMATS)
    )]
    pub(crate) format: Vec<CacheFormat>,

    /// Device to measure: auto, wgpu[:n], vulkan[:n], cuda[:n], rocm[:n], cpu, flex or xla:{cpu,tpu,cuda}[:n].
    #[arg(long, value_name = "D", default_value = "auto")]
    pub(crate) device: Device,
}

/// Formats of `bench decode`.
const CACHE_FORMATS: [Named<CacheFormat>; 4] = [
    ("f32", "32-bit float", CacheFormat::F32),
    ("f16", "IEEE half", CacheFormat::F16),
    ("bf16", "bfloat16", CacheFormat::Bf16),
    (
        "e4m3",
        "FP8, a scale for each token and head",
        CacheFormat::E4m3,
    ),
];

/// What `bench attention` measures beside ours.
const ATTENTION_PEERS: [Named<AttentionPeer>; 4] = [
    (
        "torch",
        "PyTorch's scaled_dot_product_attention on the CPU",
        AttentionPeer::Torch,
    ),
    (
        "burn",
        "Burn's attention on the same device",
        AttentionPeer::Burn,
    ),
    (
        "composition",
        "Burn's product, softmax and product on the same device",
        AttentionPeer::Composition,
    ),
    (
        "full",
        "Ours, causal and without the window",
        AttentionPeer::Full,
    ),
];

/// Granularities of `bench linear`.
const GRANULARITIES: [Named<Granularity>; 4] = [
    ("tensor", "One scale", Granularity::Tensor),
    ("row", "One for each output", Granularity::Row),
    (
        "block128",
        "One for each 128 × 128",
        Granularity::of_blocks(128, 128),
    ),
    (
        "mx",
        "One for each 32 inputs of an output, a power of two",
        Granularity::Mx,
    ),
];

/// Activations of `bench linear`.
const ACTIVATIONS: [Named<Activations>; 2] = [
    ("float", "As they come", Activations::Float),
    (
        "dynamic-row",
        "E4M3 codes with a scale for each token",
        Activations::Dynamic(Granularity::Row),
    ),
];

/// Element types of `bench`.
const DTYPES: [Named<DType>; 3] = [
    ("f32", "32-bit float", DType::F32),
    ("f16", "IEEE half", DType::F16),
    ("bf16", "bfloat16", DType::BF16),
];

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

/// Implementations to measure beside ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchPeer {
    /// PyTorch: a loop over experts, or its linear layer.
    Torch,
}
