//! The command line.

mod answering;
mod bench;
mod config;
mod fetch;
mod generate;
mod optimize;
mod package;
mod serve;
mod train;
mod validate;

use std::path::{Path, PathBuf};

use clap::{Args, ColorChoice, Parser, Subcommand};
use moebius::fp8::{Fp8Format, Granularity, ScaleRule};
use moebius_benches::options::{FORMATS, Named, named};
use moebius_device::Device;
use moebius_host::Simd;
use moebius_model::{GGUF_TYPES, GgufTypes};

pub(crate) use answering::{CachePrecision, EngineArgs, FormArgs};
pub(crate) use bench::{
    BenchArgs, BenchChartArgs, BenchCommand, BenchEngineArgs, BenchMoeArgs, How,
};
pub(crate) use config::{CompletionsArgs, ConfigArgs, ConfigCommand, ManArgs, Preset};
pub(crate) use fetch::FetchArgs;
pub(crate) use generate::{
    ChatArgs, DeviceArgs, GenerateArgs, LogitsArgs, ModelArgs, ModelPrecision, PerplexityArgs,
    PlaceArgs, PromptArgs, Weights,
};
pub(crate) use optimize::{AskedLevel, Goal, Level, OptimizeArgs};
pub(crate) use package::{PackageArgs, RequestsArgs};
pub(crate) use serve::ServeArgs;
pub(crate) use train::{MergeArgs, TrainArgs, UpcycleArgs};
pub(crate) use validate::{
    AnswerArgs, Devices, ValidateArgs, ValidateCommand, ValidateCompareArgs, ValidateMergeArgs,
    ValidateReferenceArgs,
};

/// One kernel source, every accelerator: mixture of experts and FP8
///
/// Without a command, the main job: shows the devices and the one it chooses, runs the bundled
/// cases on it, and, once they pass, measures the mixture-of-experts benchmark at hidden 512 and
/// 1024 and has the bundled model write a paragraph.
#[derive(Debug, Parser)]
#[command(name = "moebius", version, after_help = MAIN_EXAMPLES, verbatim_doc_comment)]
pub(crate) struct Cli {
    /// Write JSON in place of text: one object, or one a line where results come bit by bit.
    #[arg(long, global = true, display_order = 90)]
    pub(crate) json: bool,
    /// When to colour the output: auto (on a terminal; honours NO_COLOR), always or never.
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true,
        hide_possible_values = true,
        display_order = 91
    )]
    pub(crate) color: ColorChoice,
    /// File of settings in TOML [default: MOEBIUS_CONFIG, else moebius.toml here, else the user's].
    #[arg(long, global = true, value_name = "FILE", display_order = 92)]
    pub(crate) config: Option<PathBuf>,
    /// Settings for inference, training or development, where neither the line nor the environment nor the file has others.
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        hide_possible_values = true,
        display_order = 93
    )]
    pub(crate) preset: Option<Preset>,
    /// Show all that the main job found: every device, every output of every case, every stage.
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Device of the main job: auto, wgpu[:n], vulkan[:n], cuda[:n], rocm[:n], cpu, flex or xla:{cpu,tpu,cuda}[:n].
    #[arg(long, value_name = "D")]
    pub(crate) device: Option<Device>,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

impl Cli {
    /// Vector instructions that a benchmark is limited to.
    pub(crate) fn simd(&self) -> Option<Simd> {
        let how = match self.command.as_ref()? {
            Command::Bench(bench) => bench.what.how()?,
            _ => return None,
        };
        how.simd
    }

    /// File for the trace of the command.
    pub(crate) fn trace(&self) -> Option<&Path> {
        let args = match self.command.as_ref()? {
            Command::Bench(args) => args.what.trace()?,
            Command::Generate(args) => &args.trace,
            Command::Train(args) => &args.trace,
            Command::Serve(args) => &args.trace,
            _ => return None,
        };
        args.trace.as_deref()
    }
}

/// Whether a command writes a trace.
#[derive(Debug, Default, Args)]
pub(crate) struct TraceArgs {
    /// Write what is computed and when into this file, for Perfetto or chrome://tracing, and show the time, bytes and FLOPs of each
    /// operation at the end. Each is waited for, so that the whole takes longer.
    #[arg(long, value_name = "FILE", display_order = 80)]
    pub(crate) trace: Option<PathBuf>,
}

const MAIN_EXAMPLES: &str = "\
Examples:
  moebius                                      the main job on the best device here
  moebius --device flex --json                 the same on plain Rust, as JSON
  moebius devices                              what can be used here, and why the rest cannot
  moebius doctor                               whether it works, and what to do about what doesn't
  moebius demo moe_layer                       one of the demos; `moebius demo` lists them
  moebius verify my.safetensors --device cpu   check a device against another implementation
  moebius bench moe --hidden 1024 --gated      one benchmark

Exit codes:
  0  everything holds
  1  a result was computed and is negative (a case mismatches, a benchmark did not verify or is slower
     than what it is compared with)
  2  an error: nothing, or not everything, could be computed";

/// A command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the devices this machine offers, and which one `auto` chooses.
    Devices,
    /// Test every device and what it needs around it, and say what to do about what is wrong
    ///
    /// Each runtime's devices run a few bundled cases in a process of their own, so that a driver that crashes ends
    /// nothing else. Then come the folders of caches, the terminal and the variables of the environment.
    #[command(verbatim_doc_comment)]
    Doctor(DoctorArgs),
    /// Run a demo, which shows one thing and says whether it holds; without a name, list them
    ///
    /// Each is a short program, too: `cargo run --example NAME` in the sources.
    #[command(verbatim_doc_comment)]
    Demo(DemoArgs),
    /// Run case files on a device and compare with the outputs they expect
    ///
    /// A case file is a safetensors file with the metadata `op`, `params` (JSON) and `tol` (JSON),
    /// inputs `in.<name>` and expected outputs `out.<name>`. Operations: attention,
    /// attention_backward, balance_losses, balance_losses_backward, decoder_logits, fp8_cast,
    /// fp8_linear, fp8_quantize, fp8_training_linear, kv_cache, moe_layer, moe_layer_backward,
    /// route, route_backward.
    #[command(verbatim_doc_comment)]
    Verify(VerifyArgs),
    /// Show that devices give the same answer, or which part of a model is the first to differ
    ///
    /// Without a model, runs the bundled cases on each device. With one, compares what each device computes for a text, part by part, with
    /// a reference in f64: embeddings, each layer's attention, router and experts, and the logits. The report is a certificate that can be
    /// united with those of other machines.
    #[command(verbatim_doc_comment)]
    Validate(ValidateArgs),
    /// Write a kernel's source for a target; needs no device.
    Emit(EmitArgs),
    /// Measure, after checking the result.
    Bench(BenchArgs),
    /// Train a small mixture-of-experts transformer, or a published model, on a text
    ///
    /// The small one learns to continue the text byte by byte. The loss is the cross entropy in nats a byte: 5.5
    /// is guessing, and the bundled text (half of Moby-Dick) takes about a minute to half of it. With --model a published model
    /// goes on learning from its own weights, and is written into a new folder.
    #[command(verbatim_doc_comment)]
    Train(Box<TrainArgs>),
    /// Make a dense published model a mixture of experts
    ///
    /// The mixture computes what the dense model computes; `moebius train --model` makes its experts differ. From llama a mixtral is made,
    /// from qwen3 a qwen3_moe.
    #[command(verbatim_doc_comment)]
    Upcycle(UpcycleArgs),
    /// Write the changes of a LoRA adapter into a copy of its model
    ///
    /// The weights of the whole model are written in f32, with its tokenizer beside them; it computes what `--adapter` of other commands
    /// does. Needs no device.
    #[command(verbatim_doc_comment)]
    Merge(MergeArgs),
    /// Convert the weights of a checkpoint to FP8, or a model to a GGUF file
    ///
    /// Reads safetensors: a file, a checkpoint of several with its index, or a folder with either; FP8
    /// checkpoints, too. Matrices become codes and scales, everything else stays byte for byte. Not
    /// converted: embeddings, norms, the output head, routers, and what --skip names. With --to gguf:TYPE
    /// a folder with config.json and tokenizer becomes one file. Needs no device.
    #[command(verbatim_doc_comment)]
    Convert(ConvertArgs),
    /// Download a published model into the cache that Hugging Face's programs share
    ///
    /// Fetches what a model needs and no more: its configuration, tokenizer, chat template and weights in safetensors, or one GGUF file.
    /// An interrupted download goes on where it stopped. Then `--model ORG/NAME` takes the model from the cache.
    #[command(verbatim_doc_comment)]
    Fetch(FetchArgs),
    /// Make a folder of a published model that is checked before it is served, or check one
    ///
    /// A package has the model's files, what was measured with them on this machine, and the SHA-256 of every file. The model is loaded
    /// from the package and measured before the package appears. `--verify` finds a changed, missing or additional byte.
    #[command(verbatim_doc_comment)]
    Package(PackageArgs),
    /// Find options with which a published model is faster or smaller here, and make a package with them
    ///
    /// Tries one change after the other against the best so far: what is computed in, FP8 weights, the cache's format, a narrow
    /// embedding, proposed tokens. A change stays if it saves 5 % beyond the noise and its result is as near f32's as the level asks;
    /// otherwise the reason is told, with the layer and the part of the model that is the first to be too far away.
    #[command(verbatim_doc_comment)]
    Optimize(OptimizeArgs),
    /// Go on with a text by a published model
    ///
    /// Reads a folder as Hugging Face has them, or a GGUF file. Whatever in it is unsupported, missing or doesn't fit is one error
    /// that lists all of it.
    #[command(verbatim_doc_comment)]
    Generate(GenerateArgs),
    /// Talk with a published model, in its own chat template
    ///
    /// A line is a message; /help lists the commands. Ctrl-C ends an answer and keeps the conversation, and ends the program while it
    /// waits for a message.
    #[command(verbatim_doc_comment)]
    Chat(ChatArgs),
    /// Answer the requests of programs, by a published model, in the shape of OpenAI's interface
    ///
    /// Answers many requests at once, until a signal stops it. Clients are told when there is too much to do, and those that
    /// leave are forgotten. Everything that can be asked for at once is bounded.
    #[command(verbatim_doc_comment)]
    Serve(Box<ServeArgs>),
    /// Show which tokens a published model thinks likely after a text
    #[command(verbatim_doc_comment)]
    Logits(LogitsArgs),
    /// Measure how well a published model foresees a text
    ///
    /// Perplexity is exp of the mean negative logarithm of each token's probability: of how many tokens alike the model would choose.
    #[command(verbatim_doc_comment)]
    Perplexity(PerplexityArgs),
    /// Show the settings that flags, environment, file and preset add up to.
    Config(ConfigArgs),
    /// Write a shell's completions of this command.
    Completions(CompletionsArgs),
    /// Write manual pages, one for each command.
    Man(ManArgs),
}

/// `doctor`.
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Device to test: wgpu[:n], vulkan[:n], cuda[:n], rocm[:n], cpu, flex or xla:{cpu,tpu,cuda}[:n]; auto tests all.
    #[arg(long, value_name = "D", default_value = "auto")]
    pub(crate) device: Device,
    /// Test the device in this process and nothing else; `doctor` starts itself so.
    #[arg(long, hide = true, requires = "device")]
    pub(crate) here: bool,
}

const DOCTOR_EXAMPLES: &str = "\
Examples:
  moebius doctor
  moebius doctor --device xla:cpu
  moebius doctor --json | jq '.checks[] | select(.fix)'

Exit codes: 0 a device works and nothing is broken, 1 no device works or something that is installed doesn't,
2 an error. What is missing breaks nothing.";

/// `demo`.
#[derive(Debug, Args)]
#[command(after_help = DEMO_EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Demo to run; without one all are listed.
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Device to compute on: auto, wgpu[:n], vulkan[:n], cuda[:n], rocm[:n], cpu, flex or xla:{cpu,tpu,cuda}[:n].
    #[arg(long, value_name = "D", default_value = "auto")]
    pub(crate) device: Device,
}

const DEMO_EXAMPLES: &str = "\
Examples:
  moebius demo
  moebius demo moe_layer
  moebius demo attention_rules --device cpu --json

Exit codes: 0 what the demo shows holds, 1 it doesn't, 2 an error.";

/// `verify`.
#[derive(Debug, Args)]
#[command(after_help = VERIFY_EXAMPLES)]
pub(crate) struct VerifyArgs {
    /// Case files.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Device to compute on: auto, wgpu[:n], vulkan[:n], cuda[:n], rocm[:n], cpu, flex or xla:{cpu,tpu,cuda}[:n].
    #[arg(long, value_name = "D", default_value = "auto")]
    pub(crate) device: Device,
}

const VERIFY_EXAMPLES: &str = "\
Examples:
  moebius verify tests/cases/*.safetensors
  moebius verify route_sigmoid.safetensors --device wgpu --json

A broken or unsupported file is reported and does not stop the others. Exit codes: 0 all pass,
1 a mismatch, 2 a file could not be run.";

/// `emit`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  moebius emit --list
  moebius emit --kernel grouped_gemm_unit --target wgsl --out generated")]
pub(crate) struct EmitArgs {
    /// Show every kernel and target.
    #[arg(long, conflicts_with_all = ["kernel", "target", "out"])]
    pub(crate) list: bool,
    /// Kernel to write.
    #[arg(long, value_name = "K", required_unless_present = "list")]
    pub(crate) kernel: Option<String>,
    /// Language or instruction set to write it in.
    #[arg(long, value_name = "T", required_unless_present = "list")]
    pub(crate) target: Option<String>,
    /// Folder for the file; created where missing.
    #[arg(long, value_name = "DIR", required_unless_present = "list")]
    pub(crate) out: Option<PathBuf>,
}

/// `convert`.
#[derive(Debug, Args)]
#[command(after_help = CONVERT_EXAMPLES)]
pub(crate) struct ConvertArgs {
    /// Checkpoint to read: a folder, an index or a .safetensors file, or ORG/NAME in the cache (`moebius fetch`).
    #[arg(long, value_name = "IN")]
    pub(crate) model: PathBuf,
    /// What to write: a .safetensors file, or a folder that is new or empty; of --to gguf:TYPE a new file.
    #[arg(long, value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// What the weights become: fp8, or blocks of a GGUF file: gguf:TYPE with F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K,
    /// Q6_K, IQ4_NL or MXFP4 for all matrices, or llama.cpp's mixes Q4_K_S, Q4_K_M, Q5_K_S and Q5_K_M. The other options are of fp8 alone.
    #[arg(long, value_name = "FORM", default_value = "fp8", value_parser = form)]
    pub(crate) to: ConvertTo,
    /// Format of the codes.
    #[arg(long, value_name = "F", default_value = "e4m3", value_parser = named(FORMATS))]
    pub(crate) format: Fp8Format,
    /// Values that share a scale: tensor, row, block128, RxC (rows by columns) or mx.
    #[arg(long, value_name = "G", default_value = "block128", value_parser = granularity)]
    pub(crate) granularity: Granularity,
    /// How scales follow from the values.
    #[arg(long, value_name = "S", default_value = "largest", value_parser = named(SCALES))]
    pub(crate) scales: ScaleRule,
    /// Leave tensors with such a name as they are: `*` any characters, `?` one; may be repeated.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) skip: Vec<String>,
    /// Convert embeddings, norms, the output head and routers, too.
    #[arg(long)]
    pub(crate) no_default_skips: bool,
    /// Take FP8 codes without a scale for their values.
    #[arg(long)]
    pub(crate) assume_scale_one: bool,
    /// Bytes of data from which on a folder gets another file.
    #[arg(long, value_name = "N", default_value = "5000000000")]
    pub(crate) shard_bytes: u64,
}

/// What the weights of a conversion become.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ConvertTo {
    /// FP8 codes with scales.
    Fp8,
    /// Blocks of these types in a GGUF file.
    Gguf(GgufTypes),
}

fn form(text: &str) -> Result<ConvertTo, String> {
    if text == "fp8" {
        return Ok(ConvertTo::Fp8);
    }
    let types = text.strip_prefix("gguf:").and_then(GgufTypes::named);
    types.map(ConvertTo::Gguf).ok_or_else(|| {
        let names = GGUF_TYPES.map(GgufTypes::name);
        format!("expected fp8, or gguf: before one of {}", names.join(", "))
    })
}

const SCALES: [Named<ScaleRule>; 2] = [
    ("largest", "from the largest magnitude", ScaleRule::Largest),
    (
        "least-squares",
        "of that scale and fifteen larger ones, the one with the least squared error; not for mx",
        ScaleRule::LeastSquares,
    ),
];

const CONVERT_EXAMPLES: &str = "\
Examples:
  moebius convert --model Qwen3-30B-A3B --out Qwen3-30B-A3B-FP8
  moebius convert --model model.safetensors --out fp8.safetensors --granularity row
  moebius convert --model in --out out --granularity 1x32 --scales least-squares
  moebius convert --model in --out out --format e5m2 --granularity 64x64 --skip '*.q_proj.weight' --json
  moebius convert --model Qwen3-30B-A3B --out Qwen3-30B-A3B.gguf --to gguf:Q4_K

The target appears when all of it is written. Exit codes: 0 converted, 1 nothing was in FP8 or a weight
held NaN or infinities, 2 an error.";

fn granularity(text: &str) -> Result<Granularity, String> {
    let block = match text {
        "tensor" => return Ok(Granularity::Tensor),
        "row" => return Ok(Granularity::Row),
        "mx" => return Ok(Granularity::Mx),
        _ => match text.strip_prefix("block") {
            Some(size) => Some((size, size)),
            None => text.split_once('x'),
        },
    };
    let size = |text: &str| text.parse().ok().filter(|&size: &usize| size > 0);
    let block = block.and_then(|(rows, columns)| {
        Some(Granularity::Block {
            rows: size(rows)?,
            columns: size(columns)?,
        })
    });
    block.ok_or_else(|| "expected tensor, row, block128, RxC or mx".to_owned())
}

#[cfg(test)]
mod tests;
