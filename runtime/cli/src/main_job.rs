//! `moebius` alone: devices, bundled cases, then the benchmark.

use moebius_device::Device;
use serde::Serialize;

use crate::args::BenchMoeArgs;
use crate::bundled;
use crate::devices::Survey;
use crate::error::CliError;
use crate::measure;
use crate::opened::Opened;
use crate::progress::Progress;
use crate::report::Report;
use crate::resolve::resolve;
use crate::screen::{HEADING, Outcome, Screen};

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
}

/// Runs the main job on `requested`, or on what `auto` chooses; `verbose` shows all of it.
pub(crate) fn run(
    requested: Option<Device>,
    verbose: bool,
    screen: &mut Screen,
) -> Result<Outcome, CliError> {
    let resolved = resolve(requested.unwrap_or(Device::Auto), screen);
    let survey = Survey::take();
    match verbose {
        true => survey.print(screen)?,
        false => survey.print_available(screen)?,
    }
    let device = resolved?;
    let opened = Opened::named(device)?;
    heading(screen, &format!("Bundled cases on {}", opened.name))?;
    let progress = Progress::steps(screen, "cases", bundled::count());
    let verify = Report::run(&opened, bundled::cases(), &progress);
    progress.clear();
    match verbose {
        true => verify.print(screen)?,
        false => verify.print_operations(screen)?,
    }
    let mut job = MainJob {
        survey,
        device: opened.name,
        bench: Vec::new(),
        verify,
    };
    let mut outcome = job.verify.outcome();
    // A device that computes wrong results gets no figures.
    if outcome == Outcome::Good {
        outcome = measure(device, &mut job, verbose, screen)?;
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
    heading(screen, "Mixture-of-experts layer, forward")?;
    let mut outcome = Outcome::Good;
    for hidden in WIDTHS {
        let args = BenchMoeArgs::standard(hidden, device);
        let progress = Progress::spinner(screen);
        let report = measure::moe(&args, &mut |stage| {
            progress.say(&format!("hidden {hidden}: {stage}"))
        });
        progress.clear();
        let report = report?;
        match verbose {
            true => measure::print(&args, &report, screen)?,
            false => measure::print_short(&args, &report, screen)?,
        }
        outcome = outcome.max(measure::outcome(&report));
        job.bench.push(measure::figures(&report)?);
    }
    Ok(outcome)
}

fn heading(screen: &mut Screen, text: &str) -> Result<(), CliError> {
    let text = screen.paint(HEADING, text);
    screen.line(&format!("\n{text}\n"))
}
