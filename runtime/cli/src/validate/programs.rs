//! Demos and benchmarks of a certificate: programs that check themselves.

use std::error::Error;
use std::time::Instant;

use burn::tensor::Device as BurnDevice;
use moebius::ErrorKind;
use moebius_benches::BenchError;
use moebius_benches::suite::{self, Benchmark, Event, How, Places, Row};
use moebius_device::Device;

use crate::certificate::{Demo, Found, Rate, Reason, Shown, Timed};
use crate::demo::{self, DEMOS};
use crate::error::CliError;
use crate::process;
use crate::report::guarded;
use crate::screen::Screen;

/// The demo that compares all devices of a machine: on one of them it would fail for another's fault.
const OF_ALL_DEVICES: &str = "every_device";

/// The benchmarks: a layer, attention, a product with FP8 weights and a decode step, seconds each.
const BENCHMARKS: [Benchmark; 4] = [
    Benchmark::Moe,
    Benchmark::Attention,
    Benchmark::Linear,
    Benchmark::Decode,
];

/// The demos that a certificate has.
fn demos() -> impl Iterator<Item = demo::Demo> {
    let demos = DEMOS.into_iter();
    demos.filter(|(name, ..)| *name != OF_ALL_DEVICES)
}

/// Names of the demos.
pub(super) fn demo_names() -> Vec<String> {
    demos().map(|(name, ..)| name.to_owned()).collect()
}

/// Names of the benchmarks.
pub(super) fn benchmark_names() -> Vec<String> {
    BENCHMARKS.iter().map(Benchmark::to_string).collect()
}

/// Runs the demos on a device, one after the other; an error in one doesn't stop the others.
pub(super) fn run_demos(device: &BurnDevice, screen: &Screen) -> Found {
    let bar = screen.steps("demos", demos().count());
    let run = |(name, _, run): demo::Demo| {
        bar.set_message(name);
        let begun = Instant::now();
        let result = shown(run, device);
        bar.inc(1);
        Demo {
            demo: name.to_owned(),
            seconds: begun.elapsed().as_secs_f64(),
            result,
        }
    };
    let demos = demos().map(run).collect();
    bar.finish_and_clear();
    Found::Demos(demos)
}

/// Runs one demo.
fn shown(run: demo::Run, device: &BurnDevice) -> Shown {
    let ran = guarded(|| run(device));
    // Figures after a lost launch come from memory that was never written.
    if let Some(text) = process::lost() {
        return Shown::Error(CliError::Launch(text).to_string());
    }
    match ran {
        Ok(Ok((_, fact, true))) => Shown::Holds(fact),
        Ok(Ok((_, fact, false))) => Shown::Fails(fact),
        Ok(Err(error)) if is_refused(&*error) => Shown::Refused(error.to_string()),
        Ok(Err(error)) => Shown::Error(error.to_string()),
        Err(panic) => Shown::Error(panic),
    }
}

/// Whether the device doesn't support what a demo needs.
fn is_refused(error: &(dyn Error + 'static)) -> bool {
    let of_model = match error.downcast_ref::<moebius_model::Error>() {
        Some(moebius_model::Error::Moebius(error)) => Some(error),
        _ => None,
    };
    let of = error.downcast_ref::<moebius::Error>().or(of_model);
    of.is_some_and(|of| of.kind() == ErrorKind::Unsupported)
}

/// Verifies and times the benchmarks on a device.
pub(super) fn run_benchmarks(device: Device, screen: &Screen) -> Found {
    let place = suite::Place {
        device,
        adapter: None,
        missing: None,
    };
    let places = Places {
        all: vec![place],
        not_built: Vec::new(),
    };
    let spinner = screen.spinner();
    let report = suite::collect(
        places,
        &BENCHMARKS,
        How::default(),
        &mut |task, progress| launched(suite::measure(task, progress)),
        &mut |event| {
            if let Event::Begins { task, .. } = event {
                spinner.set_message(task.benchmark.name());
            }
        },
    );
    spinner.finish_and_clear();
    let (mut results, mut refused, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for entry in report.entries {
        let benchmark = entry.benchmark.to_string();
        match entry.outcome {
            suite::Outcome::Measured(rows) => {
                results.extend(rows.into_iter().map(|row| timed(&benchmark, row)));
            }
            suite::Outcome::Skipped(reason) => refused.push(Reason { benchmark, reason }),
            suite::Outcome::Failed(reason) => failed.push(Reason { benchmark, reason }),
        }
    }
    Found::Bench {
        results,
        refused,
        failed,
    }
}

/// `result`, or an error if a launch was lost while computing it.
fn launched(result: Result<Vec<Row>, BenchError>) -> Result<Vec<Row>, BenchError> {
    match process::lost() {
        Some(text) if result.is_ok() => Err(BenchError::Device(CliError::Launch(text).to_string())),
        _ => result,
    }
}

/// What a certificate has of a benchmark's row.
fn timed(benchmark: &str, row: Row) -> Timed {
    Timed {
        benchmark: benchmark.to_owned(),
        sizes: row.sizes,
        variant: row.variant,
        verified: row.verified,
        error: row.error.is_finite().then_some(row.error),
        median_ms: row.figures.map(|figures| figures.median_ms),
        rate: row.figures.map(|figures| Rate {
            value: figures.rate.value,
            unit: figures.rate.unit.to_owned(),
        }),
    }
}
