//! `package`.

use std::path::PathBuf;

use clap::Args;
use moebius_benches::options::positive;

use super::PlaceArgs;

/// `package`.
#[derive(Debug, Args)]
#[command(after_help = PACKAGE_EXAMPLES)]
pub(crate) struct PackageArgs {
    /// Model to pack: a folder with config.json, safetensors and tokenizer.json, a GGUF file, or ORG/NAME[:FILE] in the cache (`moebius
    /// fetch`).
    #[arg(
        long,
        value_name = "DIR|FILE.gguf|ORG/NAME",
        requires = "out",
        required_unless_present = "verify"
    )]
    pub(crate) model: Option<PathBuf>,
    /// Folder for the package, new or empty.
    #[arg(long, value_name = "DIR", requires = "model")]
    pub(crate) out: Option<PathBuf>,
    /// Check this package; nothing is measured.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["model", "out", "device", "placement", "dtype", "weights", "expert_cache", "experts_from", "memory_margin", "narrow_embedding", "exact", "streams", "prompt", "tokens", "known"]
    )]
    pub(crate) verify: Option<PathBuf>,
    /// Fingerprint that the package must have: the SHA-256 that `moebius package` told when it was made.
    #[arg(long, value_name = "HEX", requires = "verify", value_parser = fingerprint)]
    pub(crate) sha256: Option<String>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) requests: RequestsArgs,
}

/// The requests of a measurement.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct RequestsArgs {
    /// Requests of the measurement.
    #[arg(long, value_name = "N", default_value = "8", value_parser = positive)]
    pub(crate) streams: usize,
    /// Tokens of each prompt, of the sample text.
    #[arg(long, value_name = "N", default_value = "32", value_parser = positive)]
    pub(crate) prompt: usize,
    /// Tokens of each answer.
    #[arg(long, value_name = "N", default_value = "32", value_parser = positive)]
    pub(crate) tokens: usize,
    /// Tokens of the beginning that is known when the package's first token is timed.
    #[arg(long, value_name = "N", default_value = "256", value_parser = positive)]
    pub(crate) known: usize,
}

fn fingerprint(text: &str) -> Result<String, String> {
    let digits = text.chars().all(|c| c.is_ascii_hexdigit());
    if text.len() == 64 && digits {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("expected 64 hexadecimal digits".to_owned())
    }
}

const PACKAGE_EXAMPLES: &str = "\
Examples:
  moebius package --model SmolLM2 --out smollm2-package
  moebius package --model allenai/OLMoE-1B-7B-0924 --out olmoe --device wgpu --dtype fp8 --streams 4
  moebius package --verify olmoe
  moebius package --verify olmoe --sha256 44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a --json

`sha256sum --check SHA256SUMS` in the package's folder needs no moebius, but doesn't see additional files. Exit codes:
0 made, or as it should be; 1 not as it should be, or requests whose tokens depend on their company; 2 an error.";
