//! `logits`.

use clap::Args;
use moebius_benches::options::{named, positive};
use moebius_device::Device;

use super::{ModelPrecision, PRECISIONS, PromptArgs};

/// `logits`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LogitsArgs {
    #[command(flatten)]
    pub(crate) prompt: PromptArgs,

    /// Device to compute on: auto, wgpu[:n], vulkan[:n], cuda[:n], rocm[:n], cpu, flex or xla:{cpu,tpu,cuda}[:n].
    #[arg(long, value_name = "D", default_value = "auto")]
    pub(crate) device: Device,

    /// What to compute in.
    #[arg(long, value_name = "T", default_value = "f32", value_parser = named(PRECISIONS))]
    pub(crate) dtype: ModelPrecision,

    /// So many of the likeliest tokens.
    #[arg(long, value_name = "N", default_value = "10", value_parser = positive)]
    pub(crate) top: usize,
}

const EXAMPLES: &str = "\
Examples:
  moebius logits --model SmolLM2 --prompt 'The capital of France is'
  moebius logits --model SmolLM2 --prompt 'The capital of France is' --device wgpu --top 100000 --json";
