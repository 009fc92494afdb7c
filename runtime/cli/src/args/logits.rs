//! `logits`.

use clap::Args;
use moebius_benches::options::positive;

use super::{PlaceArgs, PromptArgs};

/// `logits`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LogitsArgs {
    #[command(flatten)]
    pub(crate) prompt: PromptArgs,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// So many of the likeliest tokens.
    #[arg(long, value_name = "N", default_value = "10", value_parser = positive)]
    pub(crate) top: usize,
}

const EXAMPLES: &str = "\
Examples:
  moebius logits --model SmolLM2 --prompt 'The capital of France is'
  moebius logits --model SmolLM2 --prompt 'The capital of France is' --device wgpu --top 100000 --json";
