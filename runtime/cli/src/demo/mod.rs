//! `moebius demo`: the programs in `examples/`, each of which shows one thing and says whether it holds.

mod examples;

use std::error::Error;

use anstyle::Style;
use moebius_device::Device;
use serde_json::{Value, json};

use crate::args::DemoArgs;
use crate::error::CliError;
use crate::resolve::resolve;
use crate::screen::{BAD, GOOD, Outcome, Screen, Table};

/// A demo's function, which returns its figures, the fact that they show, and whether it holds.
pub(crate) type Run = fn(&burn::tensor::Device) -> Result<(String, String, bool), Box<dyn Error>>;

/// Name of a demo, what it shows, and its function.
pub(crate) type Demo = (&'static str, &'static str, Run);

/// The demos: layers first, then models.
pub(crate) const DEMOS: [Demo; 16] = [
    (
        "moe_layer",
        "a fused mixture of experts computes what its definition says",
        examples::moe_layer::run,
    ),
    (
        "expert_balance",
        "a bias spreads tokens evenly over the experts",
        examples::expert_balance::run,
    ),
    (
        "expert_cache",
        "experts in main memory change no output",
        examples::expert_cache::run,
    ),
    (
        "fp8_linear",
        "FP8 weights take a quarter of the bytes, within half a step",
        examples::fp8_linear::run,
    ),
    (
        "attention_rules",
        "rules of attention compute what masks of all pairs do",
        examples::attention_rules::run,
    ),
    (
        "custom_kernel",
        "a rule written in CubeCL joins the kernels of attention, with its gradient",
        examples::custom_kernel::run,
    ),
    (
        "every_device",
        "every device of this machine gives the same numbers",
        examples::every_device::run,
    ),
    (
        "nvidia",
        "plans take the matrix instructions of NVIDIA's cards, and their CUDA C++ has them",
        examples::nvidia::run,
    ),
    (
        "amd",
        "plans know AMD's wavefronts and matrix instructions, and their HIP C++ has them",
        examples::amd::run,
    ),
    (
        "tpu",
        "a layer is one program of XLA's own operations, as a TPU takes it",
        examples::tpu::run,
    ),
    (
        "training",
        "a model learns a text, in f32 and in FP8",
        examples::training::run,
    ),
    (
        "generation",
        "a cache and proposed tokens change no text",
        examples::generation::run,
    ),
    (
        "checkpoint",
        "a checkpoint in FP8 is multiplied as it is on disk",
        examples::checkpoint::run,
    ),
    (
        "optimize",
        "changes are kept that make a model smaller within a budget",
        examples::optimize::run,
    ),
    (
        "serving",
        "a server's answer depends on its seed, not on its company",
        examples::serving::run,
    ),
    (
        "pipeline",
        "a model is packed, verified, served, asked and counted",
        examples::pipeline::run,
    ),
];

/// Runs `moebius demo`.
pub(crate) fn run(args: &DemoArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let Some(name) = &args.name else {
        return list(screen);
    };
    let demo = DEMOS.into_iter().find(|(known, ..)| known == name);
    let demo = demo.ok_or_else(|| {
        let message = format!("expected the name of a demo, got `{name}`");
        CliError::usage(message, Some("`moebius demo` lists them"))
    })?;
    show(demo, args.device, screen)
}

/// Writes the names of the demos, and what they show.
fn list(screen: &mut Screen) -> Result<Outcome, CliError> {
    let mut table = Table::new("demo | shows that");
    let mut demos: Vec<Value> = Vec::new();
    for (name, shows, _) in DEMOS {
        table.row([name, shows].map(str::to_owned), Style::new());
        demos.push(json!({ "demo": name, "shows": shows }));
    }
    table.print(screen)?;
    screen.object(&json!({ "demos": demos }))?;
    Ok(Outcome::Good)
}

/// Runs a demo, and writes its figures and whether its fact holds.
fn show(
    (name, shows, run): Demo,
    requested: Device,
    screen: &mut Screen,
) -> Result<Outcome, CliError> {
    let device = resolve(requested, screen)?;
    let opened = moebius::open(&device)?;
    screen.heading(&format!("{name} on {device}: {shows}"))?;
    let found = run(&opened).map_err(|error| CliError::Demo(error.to_string()))?;
    let (figures, fact, holds) = found;
    let (style, verdict) = if holds {
        (GOOD, "holds")
    } else {
        (BAD, "does not hold")
    };
    let verdict = screen.paint(style, verdict);
    screen.line(&format!("\n{figures}\n\n{verdict}: {fact}"))?;
    screen.object(&json!({
        "demo": name,
        "device": device,
        "figures": figures,
        "fact": fact,
        "holds": holds,
    }))?;
    Ok(Outcome::of(holds))
}
