//! `train` and `upcycle`.

use std::path::PathBuf;

use clap::Args;
use moebius::blocks::BlockFormat;
use moebius::fp8::training::{Fp8Recipe, LossScaling};
use moebius_benches::options::{Named, named, positive};
use moebius_model::load::InBlocks;
use moebius_model::{BaseWeights, Precision, Schedule, TrainMemory};

use super::generate::{WEIGHTS, Weights};
use super::{DeviceArgs, TraceArgs};

/// The precisions of a training, by name.
fn precisions() -> [Named<Precision>; 4] {
    let (delayed, current) = (Fp8Recipe::delayed(), Fp8Recipe::current());
    [
        ("f32", "Everything in f32", Precision::F32),
        (
            "bf16",
            "Products, attention and what layers pass on, over weights in f32",
            Precision::Bf16,
        ),
        (
            "fp8-delayed",
            "E4M3 forward and E5M2 backward, scales from the steps before",
            Precision::Fp8(delayed),
        ),
        (
            "fp8-current",
            "The same, scales from the tensors themselves",
            Precision::Fp8(current),
        ),
    ]
}

/// What weights are below an adapter, by the names that they have where a model is asked.
fn bases() -> [Named<BaseWeights>; WEIGHTS.len()] {
    WEIGHTS.map(|(name, help, weights)| match weights {
        Weights::F32 => (name, "32-bit float", BaseWeights::F32),
        Weights::Fp8 => (name, help, BaseWeights::Fp8),
        Weights::Blocks(InBlocks::Format(BlockFormat::Bf16)) => {
            let help = "bfloat16, with --precision bf16";
            (name, help, BaseWeights::Bf16)
        }
        Weights::Blocks(InBlocks::Format(format)) => (name, help, BaseWeights::Blocks(format)),
        Weights::Blocks(_) => (name, help, BaseWeights::File),
    })
}

/// The courses of the learning rate, by name.
const SCHEDULES: [Named<Schedule>; 3] = [
    (
        "cosine",
        "Half a cosine, down to a tenth of the peak",
        Schedule::Cosine,
    ),
    (
        "linear",
        "A line, down to a tenth of the peak",
        Schedule::Linear,
    ),
    ("constant", "The peak until the end", Schedule::Constant),
];

/// `train`.
///
/// A number that is left out is the default's, or with `--resume` the checkpoint's.
#[derive(Debug, Args)]
#[command(after_help = TRAIN_EXAMPLES)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    pub(crate) published: PublishedArgs,
    #[command(flatten)]
    pub(crate) devices: DeviceArgs,
    /// Steps in all; the learning rate falls towards the last [default: 300].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) steps: Option<usize>,
    /// Sequences in a step [default: 16, with --model 4].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) batch: Option<usize>,
    /// Batches in a step, one after the other: the mean gradient of all in the memory of one [default: 1].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) accumulate: Option<usize>,
    /// Bytes in a sequence, with --model tokens [default: 64, with --model 128].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) seq: Option<usize>,
    /// Width of a token; experts are twice as wide [default: 64].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) hidden: Option<usize>,
    /// Blocks of attention and experts [default: 2].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) layers: Option<usize>,
    /// Experts in each block [default: 8].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) experts: Option<usize>,
    /// Experts per token [default: 2].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) top_k: Option<usize>,
    /// What products are computed from: bf16 rounds all of them, where the device has it, and FP8 the linear layers of attention and
    /// experts, with loss scaling [default: f32].
    #[arg(long, value_name = "P", value_parser = named(precisions()))]
    pub(crate) precision: Option<Precision>,
    /// Factor of the loss in the backward pass: dynamic, off or a number [default: dynamic with FP8,
    /// off without].
    #[arg(long, value_name = "S", value_parser = loss_scaling)]
    pub(crate) loss_scale: Option<LossScaling>,
    /// Peak of the learning rate [default: 0.007, with --model 0.0001].
    #[arg(long, value_name = "R")]
    pub(crate) learning_rate: Option<f32>,
    /// How the learning rate goes on after its peak [default: cosine].
    #[arg(long, value_name = "S", value_parser = named(SCHEDULES))]
    pub(crate) schedule: Option<Schedule>,
    /// Steps in which the learning rate rises to its peak [default: 20].
    #[arg(long, value_name = "N")]
    pub(crate) warm_up: Option<usize>,
    /// Decides the first weights and the batches [default: 0].
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// File to learn from [default: the bundled text].
    #[arg(long, value_name = "FILE")]
    pub(crate) text: Option<PathBuf>,
    /// Steps between two reports, and between two checkpoints.
    #[arg(long, value_name = "N", default_value = "20", value_parser = positive)]
    pub(crate) every: usize,
    /// Folder to keep a checkpoint in; created where missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Go on from the checkpoint.
    #[arg(long, requires = "checkpoint")]
    pub(crate) resume: bool,
    /// Keep AdamW's moments off the device between steps: in main memory (host), or in a new file, which is removed at the end. They go
    /// through the device one parameter after another. Changes no weight.
    #[arg(long, value_name = "host|FILE")]
    pub(crate) offload_optimizer: Option<PathBuf>,
    /// Keep the input of each layer alone and compute the layer again for its gradients: one more forward pass, and the memory of one
    /// layer's in place of all. Not in FP8 or with loss scaling, and neither for samples nor for routers with a balancing bias.
    #[arg(long)]
    pub(crate) checkpoint_activations: bool,
    /// Begin only if so many percent more memory is free than is counted for a step; 0 counts nothing. Devices that don't tell what is free
    /// are not asked.
    #[arg(long, value_name = "PERCENT", default_value_t = TrainMemory::MARGIN)]
    pub(crate) memory_margin: u32,
    /// Stop after this many steps of this run, before the last of all.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) stop_after: Option<usize>,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
}

/// `train --model`.
#[derive(Debug, Args)]
pub(crate) struct PublishedArgs {
    /// Train a published model: a folder with config.json, safetensors and tokenizer.json, or ORG/NAME in the cache (`moebius fetch`).
    #[arg(long, value_name = "DIR", requires = "out", conflicts_with_all = OF_BYTES)]
    pub(crate) model: Option<PathBuf>,
    /// Folder for the trained model, or the adapter: new or empty. With --checkpoint it is written after the last of all steps.
    #[arg(long, value_name = "DIR", requires = "model")]
    pub(crate) out: Option<PathBuf>,
    /// Draw the weights instead of reading them: the folder needs no more than a config.json. Where it has no tokenizer.json, a vocabulary
    /// of the configuration's size is learnt from the text.
    #[arg(long, requires = "model")]
    pub(crate) from_scratch: bool,
    /// Learn from samples in place of a text: a file with a line of JSON for each. A sample has messages (a conversation, of which the answers
    /// are learnt), text, or prompt and completion. Several samples fill a sequence together and see nothing of each other.
    #[arg(long, value_name = "FILE", requires = "model", conflicts_with_all = OF_TEXT)]
    pub(crate) data: Option<PathBuf>,
    /// Join the lines of a paragraph of the text.
    #[arg(long, requires = "model")]
    pub(crate) paragraphs: bool,
    /// Train an adapter (LoRA): changes of this rank of some weights, all of which stay as they are. --out gets a folder in the layout of PEFT.
    #[arg(long, value_name = "RANK", requires = "model", conflicts_with = "from_scratch", value_parser = positive)]
    pub(crate) lora: Option<usize>,
    /// Changes are multiplied by this over the rank [default: 8].
    #[arg(long, value_name = "A", requires = "lora")]
    pub(crate) lora_alpha: Option<f64>,
    /// Linear modules that change, by the ends of their names: any of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj and others
    /// that the model has, those of all experts together, or all-linear [default: q_proj,v_proj].
    #[arg(long, value_name = "NAMES", requires = "lora", value_delimiter = ',')]
    pub(crate) lora_targets: Vec<String>,
    /// Multiply changes by alpha over the root of the rank (rsLoRA).
    #[arg(long, requires = "lora")]
    pub(crate) lora_rslora: bool,
    /// What the weights below the adapter are on the device: codes take a fraction of the bytes of f32, and stay as they are. The adapter is for
    /// a model with the same ones: `--dtype fp8` or `--weights` of other commands [default: bf16 with --precision bf16, else f32].
    #[arg(long, value_name = "W", requires = "lora", value_parser = named(bases()))]
    pub(crate) base: Option<BaseWeights>,
    /// Tokens at the end of the text, with --data samples at the end of the file, that are not learnt from: perplexity is measured on them
    /// [default: 2048, with --data a twentieth].
    #[arg(long, value_name = "N", requires = "model")]
    pub(crate) held_out: Option<usize>,
    /// Steps between two measurements of perplexity on what is held out; none are made during the training without this.
    #[arg(long, value_name = "N", requires = "model", value_parser = positive)]
    pub(crate) evaluate_every: Option<usize>,
    /// Share of a weight that a step at a rate of 1 would take away [default: 0.01].
    #[arg(long, value_name = "W", requires = "model")]
    pub(crate) weight_decay: Option<f32>,
}

/// Options about a text, which samples take the place of.
const OF_TEXT: [&str; 4] = [
    "text",
    "paragraphs",
    "from_scratch",
    "checkpoint_activations",
];

/// Options that only the small transformer over bytes has.
const OF_BYTES: [&str; 4] = ["hidden", "layers", "experts", "top_k"];

const TRAIN_EXAMPLES: &str = "\
Examples:
  moebius train
  moebius train --device flex --checkpoint run --stop-after 100
  moebius train --device flex --checkpoint run --resume
  moebius train --precision fp8-delayed
  moebius train --precision bf16 --device flex
  moebius train --text my.txt --hidden 128 --experts 16 --steps 1000 --json
  moebius train --model SmolLM2 --text my.txt --out SmolLM2-mine
  moebius train --model SmolLM2 --text my.txt --out SmolLM2-mine --offload-optimizer host
  moebius train --model SmolLM2 --text my.txt --out SmolLM2-mine --accumulate 8 --schedule linear --evaluate-every 50
  moebius train --model SmolLM2 --data chats.jsonl --out SmolLM2-mine --seq 1024 --batch 1 --accumulate 16
  moebius train --model SmolLM2 --text my.txt --out SmolLM2-mine --precision fp8-delayed --checkpoint run
  moebius train --model SmolLM2 --data chats.jsonl --out adapter --lora 16 --lora-alpha 32 --lora-targets all-linear --learning-rate 0.0002
  moebius train --model OLMoE --data chats.jsonl --out adapter --lora 16 --base fp8 --checkpoint-activations
  moebius train --model new --from-scratch --paragraphs --steps 2000 --learning-rate 0.003 --out trained

A resumed training repeats the uninterrupted one bit for bit on the same device. With --json every
report is an object on its own line, and so is the result. Exit codes: 0 the loss fell or nothing was
left to do, 1 it did not fall, 2 an error.";

fn loss_scaling(text: &str) -> Result<LossScaling, String> {
    match (text, text.parse()) {
        ("dynamic", _) => Ok(LossScaling::dynamic()),
        ("off", _) => Ok(LossScaling::Off),
        (_, Ok(scale)) => Ok(LossScaling::Static { scale }),
        _ => Err("expected dynamic, off or a number".to_owned()),
    }
}

/// `upcycle`.
#[derive(Debug, Args)]
#[command(after_help = UPCYCLE_EXAMPLES)]
pub(crate) struct UpcycleArgs {
    /// Folder of the dense model, with config.json, safetensors and tokenizer.json, or ORG/NAME in the cache (`moebius fetch`).
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

/// `merge`.
#[derive(Debug, Args)]
#[command(after_help = MERGE_EXAMPLES)]
pub(crate) struct MergeArgs {
    /// Folder of the model, with config.json and safetensors, or ORG/NAME in the cache (`moebius fetch`).
    #[arg(long, value_name = "DIR")]
    pub(crate) model: PathBuf,
    /// Folder of the LoRA adapter, with adapter_config.json and adapter_model.safetensors.
    #[arg(long, value_name = "DIR")]
    pub(crate) adapter: PathBuf,
    /// Folder for the whole model: new or empty.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

const MERGE_EXAMPLES: &str = "\
Examples:
  moebius merge --model SmolLM2 --adapter adapter --out SmolLM2-mine";

const UPCYCLE_EXAMPLES: &str = "\
Examples:
  moebius upcycle --model SmolLM2 --experts 8 --top-k 2 --out SmolLM2-8x
  moebius upcycle --model SmolLM2 --experts 4 --split --out SmolLM2-split
  moebius train --model SmolLM2-8x --text my.txt --out SmolLM2-mine";
