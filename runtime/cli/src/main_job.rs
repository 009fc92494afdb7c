//! `moebius` without a command: devices, bundled cases, the benchmark, then a paragraph by the bundled model.

use moebius_benches::moe::{self, MoeBench};
use moebius_device::Device;
use moebius_engine::{EngineOptions, Generation, Sampling, SamplingOptions};
use serde::Serialize;

use crate::answer::AnswerStream;
use crate::answerer::Answerer;
use crate::args::{DeviceArgs, EngineArgs, ModelPrecision, PlaceArgs};
use crate::bench::{Measured, print_short, watched};
use crate::bundled;
use crate::devices::Survey;
use crate::error::CliError;
use crate::published::Source;
use crate::report::Report;
use crate::resolve::resolve;
use crate::screen::{DIM, Outcome, Screen};

/// Hidden widths that the benchmark measures.
const WIDTHS: [usize; 2] = [512, 1024];

/// Beginning of the paragraph, which the model continues.
const BEGINNING: &str = "The old captain looked at the sea, and";

/// Largest number of generated tokens.
const TOKENS: usize = 128;

/// Stop string that ends the paragraph.
const END: &str = "\n";

/// The JSON object of the main job.
#[derive(Serialize)]
struct MainJob {
    /// The devices and the choice of `auto`.
    #[serde(flatten)]
    survey: Survey,
    /// Name of the device that everything else ran on.
    device: String,
    /// Results of the bundled cases.
    verify: Report,
    /// Results of the benchmark at each width; empty if a case did not pass.
    bench: Vec<serde_json::Value>,
    /// Text that the bundled model wrote; `None` if a case did not pass.
    text: Option<Writing>,
}

/// Runs the main job on `requested`, or on the device that `auto` chooses; `verbose` shows all details.
pub(crate) fn run(
    requested: Option<Device>,
    verbose: bool,
    screen: &mut Screen,
) -> Result<Outcome, CliError> {
    let resolved = resolve(requested.unwrap_or(Device::Auto), screen);
    let survey = Survey::take();
    if verbose {
        survey.print(screen)?
    } else {
        survey.print_available(screen)?
    }
    let device = resolved?;
    let opened = moebius::open(&device)?;
    screen.heading(&format!("Bundled cases on {device}"))?;
    screen.line("")?;
    let cases = bundled::cases_on(&opened);
    let bar = screen.steps("cases", cases.len());
    let verify = Report::run((device, &opened), cases.into_iter(), &bar);
    if verbose {
        verify.print(screen)?
    } else {
        verify.print_operations(screen)?
    }
    let mut job = MainJob {
        survey,
        device: device.to_string(),
        bench: Vec::new(),
        text: None,
        verify,
    };
    let mut outcome = job.verify.outcome();
    // A device that computes wrong results gets no benchmark.
    if outcome == Outcome::Good {
        outcome = measure(device, &mut job, verbose, screen)?;
        job.text = Some(write(device, screen)?);
    }
    screen.object(&job)?;
    Ok(outcome)
}

fn measure(
    device: Device,
    job: &mut MainJob,
    verbose: bool,
    screen: &mut Screen,
) -> Result<Outcome, CliError> {
    screen.heading("Mixture-of-experts layer, forward")?;
    screen.line("")?;
    let mut outcome = Outcome::Good;
    for hidden in WIDTHS {
        let bench = MoeBench::standard(hidden, device);
        let report = watched(screen, |say| {
            moe::run(&bench, &mut |stage| {
                say(&format!("hidden {hidden}: {stage}"))
            })
        })?;
        if verbose {
            report.print(&bench, screen)?
        } else {
            print_short(&bench, &report, screen)?
        }
        outcome = outcome.max(Outcome::of(report.verified()));
        job.bench.push(report.figures()?);
    }
    Ok(outcome)
}

/// The generated paragraph in the JSON of the main job.
#[derive(Serialize)]
struct Writing {
    /// The paragraph, including its given beginning.
    text: String,
    /// Tokens per second after the first token.
    decode_tokens_per_s: Option<f64>,
}

/// Generates and shows the paragraph on `device`.
fn write(device: Device, screen: &mut Screen) -> Result<Writing, CliError> {
    screen.heading(&format!("A text by the bundled model on {device}"))?;
    screen.line("")?;
    let source = Source::open(None)?;
    let ids = source.tokenizer.encode(BEGINNING, true)?;
    let devices = DeviceArgs {
        device,
        placement: None,
    };
    let place = PlaceArgs {
        devices,
        dtype: ModelPrecision::F32,
        weights: None,
        expert_cache: None,
        experts_from: None,
        memory_margin: EngineOptions::MARGIN,
        narrow_embedding: false,
        exact: false,
    };
    let room = EngineOptions::for_one(ids.len() + TOKENS);
    let options = EngineArgs::at(place);
    let mut engine = Answerer::open(&options, &source, room, screen)?.engine;
    let sampling = Sampling::new(SamplingOptions {
        temperature: 0.5,
        top_p: 0.9,
        ..SamplingOptions::default()
    })?;
    let generation = Generation::new(ids, TOKENS).with_sampling(sampling);
    screen.text(BEGINNING)?;
    let stream = AnswerStream::new(&source.tokenizer, &[END.to_owned()])?;
    let answer = stream.follow(&mut engine, generation, &|| false, screen)?;
    let speed = answer.decode_speed();
    let said = speed.map_or(String::new(), |speed| format!(", {speed:.0} tokens/s"));
    let said = format!("{} tokens{said}", answer.ids.len());
    screen.line(&format!("\n{}", screen.paint(DIM, &said)))?;
    Ok(Writing {
        text: format!("{BEGINNING}{}", answer.text),
        decode_tokens_per_s: speed,
    })
}
