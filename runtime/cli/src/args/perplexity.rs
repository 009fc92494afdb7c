//! `perplexity`.

use std::path::PathBuf;

use clap::Args;
use moebius_benches::options::{named, positive};
use moebius_device::Device;

use super::{ModelPrecision, PRECISIONS};

/// `perplexity`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PerplexityArgs {
    /// Folder with config.json, safetensors and tokenizer.json, or a GGUF file.
    #[arg(long, value_name = "DIR|FILE.gguf")]
    pub(crate) model: PathBuf,

    /// Text to foresee, UTF-8.
    #[arg(long, value_name = "FILE")]
    pub(crate) text: PathBuf,

    /// Device to compute on: auto, wgpu[:n], vulkan[:n], cuda[:n], rocm[:n], cpu, flex or xla:{cpu,tpu,cuda}[:n].
    #[arg(long, value_name = "D", default_value = "auto")]
    pub(crate) device: Device,

    /// What to compute in.
    #[arg(long, value_name = "T", default_value = "f32", value_parser = named(PRECISIONS))]
    pub(crate) dtype: ModelPrecision,

    /// Tokens that a token's judge sees at most, and itself.
    #[arg(long, value_name = "N", default_value = "512", value_parser = positive)]
    pub(crate) context: usize,

    /// Tokens from one window of the context to the next [default: half of the context].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) stride: Option<usize>,

    /// Take so many of the first tokens [default: all].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) tokens: Option<usize>,
}

const EXAMPLES: &str = "\
Examples:
  moebius perplexity --model SmolLM2 --text book.txt
  moebius perplexity --model SmolLM2 --text book.txt --dtype fp8 --tokens 4096 --json";
