//! Runs every benchmark on every device, going on after failures.

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
    /// The benchmark.
    pub benchmark: Benchmark,
    /// The device.
    pub device: Device,
    /// Whether to use the sizes of `benches/RESULTS.md` in place of small ones.
    pub full: bool,
    /// Whether to measure JAX as well, where it has the same work.
    pub peer_jax: bool,
}

/// An event in the progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A task begins.
    Begins {
        /// Number of the task, counted from 1.
        number: usize,
        /// Number of all tasks.
        of: usize,
        /// The task.
        task: Task,
    },
    /// The current task is at this step.
    Doing(&'a str),
}

/// Function that runs one task, such as [`measure`](super::measure()), and reports its progress.
pub type Measure<'a> = &'a mut dyn FnMut(&Task, Progress<'_>) -> Result<Vec<Row>, BenchError>;

/// Options that all tasks of a run share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// See [`Task::full`].
    pub full: bool,
    /// See [`Task::peer_jax`].
    pub peer_jax: bool,
}

/// Runs each of `benchmarks` on each device that is present, one benchmark after the other, and goes on after a wrong
/// result, an error or a panic; `watch` is called with each event.
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
            // Nothing of a panicked task is used again.
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

/// The outcome of a task from its result or panic.
fn outcome(result: Result<Result<Vec<Row>, BenchError>, Box<dyn Any + Send>>) -> Outcome {
    match result {
        Ok(Ok(rows)) => Outcome::Measured(rows),
        Ok(Err(error)) if is_refused(&error) => Outcome::Skipped(error.to_string()),
        Ok(Err(error)) => Outcome::Failed(error.to_string()),
        Err(panic) => Outcome::Failed(format!("a panic: {}", message(&*panic))),
    }
}

/// Whether the device or the build refused the task before computing anything.
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

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    text.or(owned).unwrap_or("no message")
}

#[cfg(test)]
#[path = "collect_tests.rs"]
mod tests;
