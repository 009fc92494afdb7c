//! `moebius` alone: devices, bundled cases, the benchmark, then a text.

use moebius_benches::moe::{self, MoeBench};
use moebius_device::Device;
use serde::Serialize;

use crate::bundled;
use crate::devices::Survey;
use crate::error::CliError;
use crate::measure::{Measured, print_short, watched};
use crate::progress;
use crate::report::Report;
use crate::resolve::resolve;
use crate::screen::{Outcome, Screen};
use crate::writing::{self, Writing};

/// Widths of the benchmark.
const WIDTHS: [usize; 2] = [512, 1024];

/// The JSON object of the main job.
#[derive(Serialize)]
struct MainJob {
    /// What was found.
    #[serde(flatten)]
    survey: Survey,
    /// The device the rest ran on.
    device: String,
    /// The bundled cases.
    verify: Report,
    /// The benchmark at each width; empty where a case did not pass.
    bench: Vec<serde_json::Value>,
    /// What the bundled model wrote; none where a case did not pass.
    text: Option<Writing>,
}

/// Runs the main job on `requested`, or on what `auto` chooses; `verbose` shows all of it.
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
    let bar = progress::steps(screen, "cases", bundled::count());
    let verify = Report::run((device, &opened), bundled::cases(), &bar);
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
    // A device that computes wrong results gets no figures.
    if outcome == Outcome::Good {
        outcome = measure(device, &mut job, verbose, screen)?;
        job.text = Some(writing::run(device, screen)?);
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
