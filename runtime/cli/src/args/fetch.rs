//! `fetch`.

use clap::Args;

use crate::hub::{ModelName, revision};

/// `fetch`.
#[derive(Debug, Args)]
#[command(after_help = FETCH_EXAMPLES)]
pub(crate) struct FetchArgs {
    /// Repository, and where it has several models in GGUF the one to fetch: its file, a pattern with `*` and `?`, or its quantisation.
    #[arg(value_name = "ORG/NAME[:FILE]")]
    pub(crate) model: ModelName,
    /// Branch, tag or commit.
    #[arg(long, value_name = "R", default_value = "main", value_parser = revision)]
    pub(crate) revision: String,
    /// Hash files that are in the cache, too, and download those again that are wrong.
    #[arg(long)]
    pub(crate) verify: bool,
}

const FETCH_EXAMPLES: &str = "\
Examples:
  moebius fetch HuggingFaceTB/SmolLM2-135M-Instruct
  moebius fetch unsloth/SmolLM2-135M-Instruct-GGUF:Q4_K_M
  moebius fetch allenai/OLMoE-1B-7B-0924 --revision main --json
  moebius chat --model HuggingFaceTB/SmolLM2-135M-Instruct

Environment: HF_TOKEN for models with a licence to accept, HF_ENDPOINT for another server, HF_HOME or
HF_HUB_CACHE for the folder of the cache, HTTPS_PROXY for a proxy. Every file is checked by its size, and by
its SHA-256 where the repository has it (weights). Exit codes: 0 all files are in the cache, 2 an error.";
