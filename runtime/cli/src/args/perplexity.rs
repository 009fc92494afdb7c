//! `perplexity`.

use std::path::PathBuf;

use clap::Args;
use moebius_benches::options::positive;

use super::{ModelArgs, PlaceArgs};

/// `perplexity`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PerplexityArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// Text to foresee, UTF-8.
    #[arg(long, value_name = "FILE")]
    pub(crate) text: PathBuf,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Tokens that a token's judge sees at most, and itself.
    #[arg(long, value_name = "N", default_value = "512", value_parser = positive)]
    pub(crate) context: usize,

    /// Tokens from one window of the context to the next [default: half of the context].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) stride: Option<usize>,

    /// Take so many of the first tokens [default: all].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) tokens: Option<usize>,

    /// Show how many tokens each expert of each layer got, in all windows.
    #[arg(long)]
    pub(crate) experts: bool,
}

const EXAMPLES: &str = "\
Examples:
  moebius perplexity --model SmolLM2 --text book.txt
  moebius perplexity --model SmolLM2 --text book.txt --dtype fp8 --tokens 4096 --json";
