//! What a run took as a whole.

use std::thread::available_parallelism;

use crate::lanes::Finished;
use crate::schedule::{Span, critical_path};

/// Figures of all jobs together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Totals {
    /// Seconds from the run's beginning to its end.
    pub(crate) wall: f64,
    /// Processor time of all jobs, in seconds; `None` where the system doesn't say what processes took.
    pub(crate) cpu: Option<f64>,
    pub(crate) processors: usize,
    /// The places of the jobs on the critical path, in the list of those that have ended.
    pub(crate) path: Vec<usize>,
}

impl Totals {
    /// The figures of a run of `wall` seconds.
    pub(crate) fn of(finished: &[Finished], wall: f64) -> Self {
        let spans: Vec<Span> = finished.iter().map(|one| one.span).collect();
        let used = finished.iter().filter_map(|one| one.usage);
        let used: Vec<f64> = used.map(|usage| usage.cpu).collect();
        Self {
            wall,
            cpu: (!used.is_empty()).then(|| used.iter().sum()),
            processors: available_parallelism().map_or(1, |n| n.get()),
            path: critical_path(&spans),
        }
    }

    /// The part of the processors' time that the jobs used: 1 if no processor was ever idle.
    pub(crate) fn busy(&self) -> Option<f64> {
        Some(self.cpu? / (self.wall * self.processors as f64))
    }
}
