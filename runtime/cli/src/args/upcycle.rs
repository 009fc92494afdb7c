//! `upcycle`.

use std::path::PathBuf;

use clap::Args;
use moebius_benches::options::positive;

/// `upcycle`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UpcycleArgs {
    /// Folder of the dense model, with config.json, safetensors and tokenizer.json.
    #[arg(long, value_name = "DIR")]
    pub(crate) model: PathBuf,

    /// Folder for the mixture: new or empty.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,

    /// Experts of each layer.
    #[arg(long, value_name = "N", default_value = "8", value_parser = positive)]
    pub(crate) experts: usize,

    /// Experts of a token, of copies [default: 2].
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "split")]
    pub(crate) top_k: Option<usize>,

    /// Cut each network into the experts, all of which a token goes to, in place of making copies of it.
    #[arg(long)]
    pub(crate) split: bool,

    /// Decides the routers of copies, which are drawn.
    #[arg(long, value_name = "N", default_value = "0", conflicts_with = "split")]
    pub(crate) seed: u64,
}

const EXAMPLES: &str = "\
Examples:
  moebius upcycle --model SmolLM2 --experts 8 --top-k 2 --out SmolLM2-8x
  moebius upcycle --model SmolLM2 --experts 4 --split --out SmolLM2-split
  moebius train --model SmolLM2-8x --text my.txt --out SmolLM2-mine";
