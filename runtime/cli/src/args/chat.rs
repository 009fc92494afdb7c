//! `chat`.

use std::path::PathBuf;

use clap::Args;
use moebius_benches::options::positive;

use super::{PlaceArgs, SamplingArgs};

/// `chat`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ChatArgs {
    /// Folder with config.json, safetensors, tokenizer.json and a chat template, or a GGUF file.
    #[arg(long, value_name = "DIR|FILE.gguf")]
    pub(crate) model: PathBuf,

    /// What the model is told before the first message.
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Tokens of the whole conversation at most, for which the cache has room.
    #[arg(long, value_name = "N", default_value = "4096", value_parser = positive)]
    pub(crate) context: usize,

    /// Tokens of an answer at most.
    #[arg(long, value_name = "N", default_value = "512", value_parser = positive)]
    pub(crate) max_tokens: usize,

    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    /// End each answer before this text; may be repeated.
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,

    /// Show, when the conversation is over, how many tokens each expert of each layer got.
    #[arg(long)]
    pub(crate) experts: bool,
}

const EXAMPLES: &str = "\
Examples:
  moebius chat --model SmolLM2 --temperature 0.7 --top-p 0.9
  moebius chat --model SmolLM2 --system 'Answer in one sentence.' --dtype fp8
  printf 'Who wrote Moby-Dick?\\nWhen?\\n' | moebius chat --model SmolLM2 --json   # an object for each answer";
