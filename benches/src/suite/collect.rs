//! Every benchmark on every device, whatever becomes of the others.

use super::options::Benchmark;
use super::places::Places;
use super::report::{Entry, Outcome, Report, Row};
use crate::{BenchError, Progress};
use moebius::ErrorKind;
use moebius_device::Device;
use moebius_shaders::PlanError;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One benchmark on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// What is measured.
    pub benchmark: Benchmark,
    /// Where.
    pub device: Device,
    /// At the sizes of `benches/RESULTS.md` in place of small ones.
    pub full: bool,
    /// Beside JAX, where that has the same.
    pub peer_jax: bool,
}

/// What a run is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// It begins with a task, the `number`-th `of` so many.
    Begins {
        /// Counted from 1.
        number: usize,
        /// How many there are.
        of: usize,
        /// Which.
        task: Task,
    },
    /// The task is at this.
    Doing(&'a str),
}

/// Runs one task, such as [`measure`](super::measure()), and tells what it is doing.
pub type Measure<'a> = &'a mut dyn FnMut(&Task, Progress<'_>) -> Result<Vec<Row>, BenchError>;

/// Which tasks there are, but for their device and benchmark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// As [`Task::full`].
    pub full: bool,
    /// As [`Task::peer_jax`].
    pub peer_jax: bool,
}

/// Runs each of `benchmarks` on each device that is there, one benchmark after the other, and goes on after a wrong
/// result, an error and a panic; `watch` is told what is being done.
pub fn collect(
    places: Places,
    benchmarks: &[Benchmark],
    how: How,
    measure: Measure<'_>,
    watch: &mut dyn FnMut(Event<'_>),
) -> Report {
    let How { full, peer_jax } = how;
    let devices: Vec<Device> = places.present().map(|place| place.device).collect();
    let of = benchmarks.len() * devices.len();
    let mut entries = Vec::with_capacity(of);
    for benchmark in benchmarks {
        for device in &devices {
            let task = Task {
                benchmark: *benchmark,
                device: *device,
                full,
                peer_jax,
            };
            let number = entries.len() + 1;
            watch(Event::Begins { number, of, task });
            let mut say = |doing: &str| watch(Event::Doing(doing));
            // Nothing of a task that panicked is used again.
            let result = catch_unwind(AssertUnwindSafe(|| measure(&task, &mut say)));
            entries.push(Entry {
                benchmark: task.benchmark,
                device: task.device,
                outcome: outcome(result),
            });
        }
    }
    Report {
        full,
        places,
        entries,
    }
}

/// What became of a task.
fn outcome(result: Result<Result<Vec<Row>, BenchError>, Box<dyn Any + Send>>) -> Outcome {
    match result {
        Ok(Ok(rows)) => Outcome::Measured(rows),
        Ok(Err(error)) if is_refused(&error) => Outcome::Skipped(error.to_string()),
        Ok(Err(error)) => Outcome::Failed(error.to_string()),
        Err(panic) => Outcome::Failed(format!("a panic: {}", message(&*panic))),
    }
}

/// Whether the device or the build can't do it, and said so before it computed anything.
fn is_refused(error: &BenchError) -> bool {
    match error {
        BenchError::Lacks { .. } | BenchError::Held(_) => true,
        BenchError::Refused(error) => {
            matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Open)
        }
        BenchError::Plan(error) => matches!(error, PlanError::Unsupported(_)),
        BenchError::Device(_) | BenchError::Peer(_) => false,
    }
}

/// What a panic says.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    text.or(owned).unwrap_or("no message")
}

#[cfg(test)]
#[path = "collect_tests.rs"]
mod tests;
