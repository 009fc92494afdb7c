//! `optimize`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use moebius_device::Device;
use serde::Serialize;

use super::RequestsArgs;

/// How far results may be from f32's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// The likeliest tokens of the sample stay the same.
    Conservative,
    /// Perplexity grows by 1 % at most.
    Balanced,
    /// Perplexity grows by 5 % at most.
    Aggressive,
}

/// The level that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AskedLevel {
    /// The widest level whose own budget is within --budget; without one, aggressive for memory and balanced for other goals.
    Auto,
    /// The likeliest tokens of the sample stay the same.
    Conservative,
    /// Perplexity grows by 1 % at most.
    Balanced,
    /// Perplexity grows by 5 % at most.
    Aggressive,
}

/// What becomes smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Goal {
    /// The time of requests one by one.
    Latency,
    /// The time of the same requests together.
    Throughput,
    /// The bytes of weights and cache.
    Memory,
}

impl Level {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Conservative => "conservative",
            Self::Balanced => "balanced",
            Self::Aggressive => "aggressive",
        }
    }
}

impl Goal {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Throughput => "throughput",
            Self::Memory => "memory",
        }
    }
}

/// `optimize`.
#[derive(Debug, Args)]
#[command(after_help = OPTIMIZE_EXAMPLES)]
pub(crate) struct OptimizeArgs {
    /// Model: a folder with config.json, safetensors and tokenizer.json, a GGUF file, or ORG/NAME[:FILE] in the cache (`moebius fetch`).
    #[arg(long, value_name = "DIR|FILE.gguf|ORG/NAME")]
    pub(crate) model: PathBuf,
    /// Folder for the package with the options that were found, new or empty.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// What may be tried, and how far results may be from f32's.
    #[arg(long, value_name = "L", default_value = "balanced")]
    pub(crate) level: AskedLevel,
    /// Largest growth of the perplexity over f32's, in percent [default: the level's 0.1, 1 or 5].
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) budget: Option<f64>,
    /// What is to become smaller.
    #[arg(long, value_name = "G", default_value = "latency")]
    pub(crate) goal: Goal,
    /// Device to compute on: auto, wgpu[:n], vulkan[:n], cuda[:n], rocm[:n], cpu, flex or xla:{cpu,tpu,cuda}[:n].
    #[arg(long, value_name = "D", default_value = "auto")]
    pub(crate) device: Device,
    /// Sample text that prompts are made of and perplexity is measured on, UTF-8 [default: the bundled text, half of Moby-Dick].
    #[arg(long, value_name = "FILE")]
    pub(crate) prompt_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) requests: RequestsArgs,
}

/// Parses a percentage of at least 0.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "expected a percentage of at least 0".to_owned())
}

const OPTIMIZE_EXAMPLES: &str = "\
Examples:
  moebius optimize --model SmolLM2 --out smollm2-fast
  moebius optimize --model OLMoE --level conservative --goal throughput --device cuda --out olmoe-fast
  moebius optimize --model OLMoE --level auto --goal memory --out olmoe-small
  moebius optimize --model OLMoE --level aggressive --budget 2 --goal memory --prompt-file mine.txt --out olmoe-small
  moebius serve --model smollm2-fast --config smollm2-fast/moebius.toml

Both the best so far and what is tried are on the device at once, the first of them in f32. Exit codes: 0 a package was made,
with what was found or the defaults; 1 requests whose tokens depend on their company; 2 an error.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_percentage() {
        assert_eq!(percent("0.5"), Ok(0.5));
        assert_eq!(percent("0"), Ok(0.0));
        for text in ["", "-1", "NaN", "inf", "1 %"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
