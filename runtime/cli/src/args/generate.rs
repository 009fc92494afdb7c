//! `generate`, `chat`, `logits` and `perplexity`: the commands that ask a published model.

use std::path::PathBuf;

use clap::Args;
use moebius::blocks::BlockFormat;
use moebius_benches::options::{Named, named, positive};
use moebius_device::{Device, Placement};
use moebius_engine::{EngineOptions, Sampling, SamplingOptions};
use moebius_model::load::{ExpertsFrom, InBlocks};

use super::{EngineArgs, FormArgs, TraceArgs};
use crate::error::CliError;

/// What a model computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelPrecision {
    F32,
    F16,
    Bf16,
    Fp8,
}

impl ModelPrecision {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Fp8 => "FP8 weights, f32 sums",
        }
    }

    /// The value of `--dtype` that stands for it.
    pub(crate) fn option(self) -> &'static str {
        let named = PRECISIONS
            .iter()
            .find(|(_, _, precision)| *precision == self);
        named.map_or("", |(name, ..)| *name)
    }
}

/// What a model's weights are on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weights {
    /// Values in f32, those of the file's FP8 codes, too.
    F32,
    /// FP8 codes, as [`ModelPrecision::Fp8`] has them.
    Fp8,
    /// Blocks, or values of what the model computes in.
    Blocks(InBlocks),
}

impl Default for Weights {
    fn default() -> Self {
        Self::Blocks(InBlocks::None)
    }
}

/// What a model's weights may be on the device, if not values of what it computes in.
pub(super) const WEIGHTS: [Named<Weights>; 15] = [
    (
        "file",
        "as the file has them: blocks of codes of a GGUF file, MXFP4, NVFP4, 4 bits of GPTQ and AWQ, or 16 bits",
        Weights::Blocks(InBlocks::File),
    ),
    ("f32", "32-bit float, with --dtype f32", Weights::F32),
    rounded(BlockFormat::Bf16, "16 bits a weight"),
    rounded(BlockFormat::F16, "16 bits"),
    (
        "fp8",
        "E4M3 with a scale for each 32 values of a row, or the file's FP8 codes, with --dtype f32",
        Weights::Fp8,
    ),
    rounded(BlockFormat::Q8_0, "8.5 bits"),
    rounded(BlockFormat::Q4_0, "4.5 bits"),
    rounded(BlockFormat::Q4_1, "5 bits"),
    rounded(BlockFormat::Q5_0, "5.5 bits"),
    rounded(BlockFormat::Q5_1, "6 bits"),
    rounded(BlockFormat::Q4K, "4.5 bits"),
    rounded(BlockFormat::Q5K, "5.5 bits"),
    rounded(BlockFormat::Q6K, "6.6 bits"),
    rounded(BlockFormat::Iq4Nl, "4.5 bits"),
    rounded(BlockFormat::Mxfp4, "4.25 bits"),
];

/// Weights that are rounded to blocks of a format while they are loaded.
const fn rounded(format: BlockFormat, bits: &'static str) -> Named<Weights> {
    (
        format.name(),
        bits,
        Weights::Blocks(InBlocks::Format(format)),
    )
}

const EXPERTS_FROM: [Named<ExpertsFrom>; 2] = [
    (
        "memory",
        "main memory: each is read and converted once",
        ExpertsFrom::Memory,
    ),
    (
        "files",
        "the model's files: each is read and converted whenever it is needed",
        ExpertsFrom::Files,
    ),
];

const PRECISIONS: [Named<ModelPrecision>; 4] = [
    ("f32", "32-bit float", ModelPrecision::F32),
    ("f16", "IEEE half", ModelPrecision::F16),
    ("bf16", "bfloat16", ModelPrecision::Bf16),
    (
        "fp8",
        "weights as E4M3 with a scale for each 32 values of a row, all else f32",
        ModelPrecision::Fp8,
    ),
];

/// `generate`.
#[derive(Debug, Args)]
#[command(after_help = GENERATE_EXAMPLES)]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    pub(crate) prompt: PromptArgs,
    /// Answer the prompts in this file together, a JSON text a line, and show the answers when all have ended.
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub(crate) prompts: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    /// Tokens to generate at most, in answer to each prompt; memory is taken as they come.
    #[arg(long, value_name = "N", default_value = "128", value_parser = positive)]
    pub(crate) max_tokens: usize,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    /// End before this text; may be repeated.
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,
    /// Show how many tokens each expert of each layer got.
    #[arg(long)]
    pub(crate) experts: bool,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
}

/// Where a model runs.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct DeviceArgs {
    /// Device to compute on: auto, wgpu[:n], vulkan[:n], cuda[:n], rocm[:n], cpu, flex or xla:{cpu,tpu,cuda}[:n].
    #[arg(long, value_name = "D", default_value = "auto")]
    pub(crate) device: Device,
    /// Divide the model among so many devices of XLA from --device on: the experts of each layer among some, tokens among others.
    #[arg(long = "place", value_name = Placement::EXPECTED)]
    pub(crate) placement: Option<Placement>,
}

/// Where a model runs, and in what.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct PlaceArgs {
    #[command(flatten)]
    pub(crate) devices: DeviceArgs,
    /// What to compute in.
    #[arg(long, value_name = "T", default_value = "f32", value_parser = named(PRECISIONS))]
    pub(crate) dtype: ModelPrecision,
    /// What the weights are on the device, decoded while products load them: as the file has them, or rounded to this type while they are
    /// loaded [default: values of --dtype].
    #[arg(long, value_name = "W", value_parser = named(WEIGHTS), conflicts_with = "narrow_embedding")]
    pub(crate) weights: Option<Weights>,
    /// Keep the experts that tokens need in so many bytes of the device, such as 4GiB or 512MiB, and the others in main memory or in the
    /// files. In f32 this changes no token; the rest of the model is on the device [default: what is free, where a mixture doesn't fit].
    #[arg(long, value_name = "BYTES", value_parser = byte_count, conflicts_with = "placement")]
    pub(crate) expert_cache: Option<u64>,
    /// Where experts wait that aren't on the device [default: memory, where it holds all of them].
    #[arg(long, value_name = "PLACE", value_parser = named(EXPERTS_FROM), requires = "expert_cache")]
    pub(crate) experts_from: Option<ExpertsFrom>,
    /// Load the model only if so many percent more memory is free than is counted for its weights, the first tokens and a step; 0 counts no
    /// step. Devices that don't tell what is free are not asked.
    #[arg(long, value_name = "PERCENT", default_value_t = EngineOptions::MARGIN)]
    pub(crate) memory_margin: u32,
    /// Keep the embedding and the head in bf16 while all else is f32, on flex.
    #[arg(long)]
    pub(crate) narrow_embedding: bool,
    /// Compute what has the same bits on every device: in f32, with sums in one order and functions of our own. Takes longer.
    #[arg(long, conflicts_with_all = ["expert_cache", "placement", "narrow_embedding"])]
    pub(crate) exact: bool,
}

impl PlaceArgs {
    /// The value of `--weights`; `None` where weights are values of `--dtype`.
    pub(crate) fn weights_option(&self) -> Option<&'static str> {
        let mut all = WEIGHTS.into_iter();
        let (name, ..) = all.find(|(.., weights)| Some(*weights) == self.weights)?;
        Some(name)
    }

    /// What the model computes in, in words, with what its weights are where these are something else.
    pub(crate) fn precision(&self) -> String {
        let dtype = self.dtype.name();
        match self.weights_option() {
            Some(weights) => format!("{dtype}, weights {weights}"),
            None => dtype.to_owned(),
        }
    }
}

/// The number of bytes that a text names: a whole number, with KiB, MiB, GiB or TiB behind it where it isn't of bytes.
fn byte_count(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let with_unit = |(unit, bits): (&str, u32)| Some((text.strip_suffix(unit)?, bits));
    let (number, bits) = UNITS.into_iter().find_map(with_unit).unwrap_or((text, 0));
    let number = number.trim_end().parse::<u64>();
    let number = number.map_err(|_| "expected a whole number of bytes, KiB, MiB, GiB or TiB");
    let bytes = number?.checked_mul(1 << bits);
    bytes.ok_or_else(|| "expected less than 16 million TiB".to_owned())
}

/// Which model.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Folder with config.json, safetensors and tokenizer.json, a GGUF file, or ORG/NAME[:FILE] in the cache (`moebius fetch`) [default: the
    /// small model inside this program].
    #[arg(long, value_name = "DIR|FILE.gguf|ORG/NAME")]
    pub(crate) model: Option<PathBuf>,
    /// Add a LoRA adapter to the model's weights: a folder with adapter_config.json and adapter_model.safetensors, as PEFT and `moebius train
    /// --lora` write it.
    #[arg(long, value_name = "DIR")]
    pub(crate) adapter: Option<PathBuf>,
}

/// A model, and what it is asked about.
#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Text to go on with [default: standard input].
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,
    /// Take the prompt as a message to the model, in its own chat template.
    #[arg(long)]
    pub(crate) chat: bool,
    /// Take names of special tokens in the prompt for the characters that they are.
    #[arg(long)]
    pub(crate) no_special: bool,
}

/// How tokens are chosen.
#[derive(Debug, Args)]
pub(crate) struct SamplingArgs {
    /// How far logits are divided before a draw; 0 takes the likeliest token.
    #[arg(long, value_name = "T", default_value = "0")]
    pub(crate) temperature: f32,
    /// Draw from so many of the likeliest tokens [default: all].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) top_k: Option<usize>,
    /// Draw from the likeliest tokens that have this probability together.
    #[arg(long, value_name = "P", default_value = "1")]
    pub(crate) top_p: f32,
    /// Draw from tokens that have at least this part of the likeliest one's probability.
    #[arg(long, value_name = "P", default_value = "0")]
    pub(crate) min_p: f32,
    /// Divides positive logits of tokens that were there, and multiplies negative ones.
    #[arg(long, value_name = "R", default_value = "1")]
    pub(crate) repetition_penalty: f32,
    /// Decides all draws.
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) seed: u64,
}

impl SamplingArgs {
    pub(crate) fn sampling(&self) -> Result<Sampling, CliError> {
        Ok(Sampling::new(SamplingOptions {
            temperature: self.temperature,
            top_k: self.top_k.unwrap_or(0),
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            seed: self.seed,
            ..SamplingOptions::default()
        })?)
    }
}

const GENERATE_EXAMPLES: &str = "\
Examples:
  moebius generate --model SmolLM2 --prompt 'The sea was' --max-tokens 64
  moebius generate --model SmolLM2 --chat --prompt 'What is a whale?' --temperature 0.7 --seed 3
  echo 'Once upon a time' | moebius generate --model OLMoE --device wgpu --dtype fp8 --json
  moebius generate --model OLMoE --kv-cache-dtype fp8 --speculate ngram --prompt 'The sea was'
  moebius generate --model SmolLM2 --chat --prompt 'Whales?' --json-schema '{\"type\": \"object\"}'
  moebius generate --model SmolLM2 --prompts prompts.jsonl --max-tokens 64 --json

The text goes to standard output as it comes, with --json as one object at the end. Families:
deepseek_v2, deepseek_v3, dots1, ernie4_5, ernie4_5_moe, gemma2, gemma3, glm4_moe, glm4_moe_lite,
gpt_oss, granite, granitemoe, hunyuan_v1_dense, hunyuan_v1_moe, lfm2, lfm2_moe, llama, llama4,
minimax_m2, ministral3, mistral, mistral3, mixtral, olmo2, olmo3, olmoe, phi3, qwen2, qwen2_moe, qwen3,
qwen3_moe, seed_oss, smollm3, solar_open.";

/// `chat`.
#[derive(Debug, Args)]
#[command(after_help = CHAT_EXAMPLES)]
pub(crate) struct ChatArgs {
    /// Folder with config.json, safetensors, tokenizer.json and a chat template, a GGUF file, or ORG/NAME[:FILE] in the cache (`moebius
    /// fetch`).
    #[arg(long, value_name = "DIR|FILE.gguf|ORG/NAME")]
    pub(crate) model: PathBuf,
    /// Add a LoRA adapter to the model's weights: a folder with adapter_config.json and adapter_model.safetensors.
    #[arg(long, value_name = "DIR")]
    pub(crate) adapter: Option<PathBuf>,
    /// What the model is told before the first message.
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    /// Tokens of the whole conversation at most; memory is taken as they come.
    #[arg(long, value_name = "N", default_value = "4096", value_parser = positive)]
    pub(crate) context: usize,
    /// Tokens of an answer at most.
    #[arg(long, value_name = "N", default_value = "512", value_parser = positive)]
    pub(crate) max_tokens: usize,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    /// End each answer before this text; may be repeated.
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,
    /// Take names of special tokens in messages for the characters that they are.
    #[arg(long)]
    pub(crate) no_special: bool,
    /// Show, when the conversation is over, how many tokens each expert of each layer got.
    #[arg(long)]
    pub(crate) experts: bool,
}

const CHAT_EXAMPLES: &str = "\
Examples:
  moebius chat --model SmolLM2 --temperature 0.7 --top-p 0.9
  moebius chat --model SmolLM2 --system 'Answer in one sentence.' --dtype fp8
  moebius chat --model SmolLM2-1.7B --draft-model SmolLM2-135M --draft-tokens 6
  printf 'Who wrote Moby-Dick?\\nWhen?\\n' | moebius chat --model SmolLM2 --json   # an object for each answer";

/// `logits`.
#[derive(Debug, Args)]
#[command(after_help = LOGITS_EXAMPLES)]
pub(crate) struct LogitsArgs {
    #[command(flatten)]
    pub(crate) prompt: PromptArgs,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// So many of the likeliest tokens.
    #[arg(long, value_name = "N", default_value = "10", value_parser = positive)]
    pub(crate) top: usize,
    /// Write to this file which experts the prompt's tokens went to (safetensors).
    #[arg(long, value_name = "FILE", conflicts_with = "replay_routes")]
    pub(crate) record_routes: Option<PathBuf>,
    /// Send the prompt's tokens to the experts in this file, weighted by the model's own routers.
    #[arg(long, value_name = "FILE")]
    pub(crate) replay_routes: Option<PathBuf>,
}

const LOGITS_EXAMPLES: &str = "\
Examples:
  moebius logits --model SmolLM2 --prompt 'The capital of France is'
  moebius logits --model SmolLM2 --prompt 'The capital of France is' --device wgpu --top 100000 --json
  moebius logits --model OLMoE --prompt 'The sea was' --record-routes routes.safetensors
  moebius logits --model OLMoE-tuned --prompt 'The sea was' --replay-routes routes.safetensors";

/// `perplexity`.
#[derive(Debug, Args)]
#[command(after_help = PERPLEXITY_EXAMPLES)]
pub(crate) struct PerplexityArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Text to foresee, UTF-8.
    #[arg(long, value_name = "FILE")]
    pub(crate) text: PathBuf,
    /// Take names of special tokens in the text for the characters that they are.
    #[arg(long)]
    pub(crate) no_special: bool,
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

const PERPLEXITY_EXAMPLES: &str = "\
Examples:
  moebius perplexity --model SmolLM2 --text book.txt
  moebius perplexity --model SmolLM2 --text book.txt --dtype fp8 --tokens 4096 --json";
