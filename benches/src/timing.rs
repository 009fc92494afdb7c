//! How time is measured: warm, synchronised, repeated, the median.

use crate::BenchError;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Least and most repetitions of a measurement.
const REPEATS: std::ops::RangeInclusive<usize> = 5..=50;
/// Time after which no further repetition starts.
const BUDGET: Duration = Duration::from_secs(3);
/// The same where the fastest repetition counts, which one quiet moment gives.
const BUDGET_OF_FASTEST: Duration = Duration::from_secs(1);

/// How long something took in all its repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// The median.
    pub seconds: f64,
    /// The first and the third quartile.
    pub quartiles: [f64; 2],
    /// How many repetitions there were.
    pub runs: usize,
}

/// How far the repetitions of a median lie apart: half of them within the quartiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Repetitions.
    pub runs: usize,
    /// Milliseconds of the first quartile.
    pub q1_ms: f64,
    /// Milliseconds of the third quartile.
    pub q3_ms: f64,
}

/// How long a result takes, and how much it computes in that time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Median milliseconds of a warm run.
    pub median_ms: f64,
    /// How far its repetitions lie apart.
    pub spread: Spread,
    /// GFLOP/s.
    pub gflops: f64,
}

impl Timing {
    /// Of repetitions in any order; all 0 for none.
    pub fn of(values: &mut [f64]) -> Self {
        let seconds = middle(values);
        let at = |index: usize| values.get(index).copied().unwrap_or(0.0);
        let runs = values.len();
        Self {
            seconds,
            quartiles: [at(runs / 4), at(3 * runs / 4)],
            runs,
        }
    }

    /// Milliseconds of the median.
    pub fn ms(&self) -> f64 {
        self.seconds * 1e3
    }

    /// The same of so many floating-point operations.
    pub fn speed(&self, flops: u64) -> Speed {
        Speed {
            median_ms: self.ms(),
            spread: self.spread(),
            gflops: flops as f64 / self.seconds / 1e9,
        }
    }

    /// How far the repetitions lie apart.
    pub fn spread(&self) -> Spread {
        let [q1_ms, q3_ms] = self.quartiles.map(|seconds| seconds * 1e3);
        Spread {
            runs: self.runs,
            q1_ms,
            q3_ms,
        }
    }
}

/// How long `run` takes, which waits for the device before it returns; one run to warm up.
///
/// # Errors
/// The first error of `run`.
pub fn timing(mut run: impl FnMut() -> Result<(), BenchError>) -> Result<Timing, BenchError> {
    let [timing] = timings([&mut run])?;
    Ok(timing)
}

/// Seconds of the fastest of many runs, as of [`timing`]: what a machine can do when nothing disturbs it.
///
/// # Errors
/// The first error of `run`.
pub fn fastest(run: impl FnMut() -> Result<(), BenchError>) -> Result<f64, BenchError> {
    let seconds = turns(&mut [run], BUDGET_OF_FASTEST, |run| seconds_of(run))?;
    Ok(seconds.into_iter().flatten().fold(f64::INFINITY, f64::min))
}

/// Something to time.
pub type Run<'a> = &'a mut dyn FnMut() -> Result<(), BenchError>;

/// [`timing`] of several, in turns, so that a machine whose clock moves moves it for all of them.
///
/// # Errors
/// The first error of a run.
pub fn timings<const N: usize>(mut runs: [Run; N]) -> Result<[Timing; N], BenchError> {
    let timings = timings_of(&mut runs, |run| seconds_of(run))?;
    Ok(std::array::from_fn(|run| timings[run]))
}

/// [`timings`] of as many as there are; `run` runs one and says how many seconds it took.
///
/// # Errors
/// The first error of a run.
pub fn timings_of<T>(
    all: &mut [T],
    run: impl FnMut(&mut T) -> Result<f64, BenchError>,
) -> Result<Vec<Timing>, BenchError> {
    let seconds = turns(all, BUDGET, run)?.into_iter();
    let timings = seconds.map(|mut seconds| Timing::of(&mut seconds));
    Ok(timings.collect())
}

/// Seconds of one run.
///
/// # Errors
/// Its error.
pub fn seconds_of(run: impl FnOnce() -> Result<(), BenchError>) -> Result<f64, BenchError> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed().as_secs_f64())
}

/// The seconds of every repetition of several, in turns, after one run of each to warm up.
fn turns<T>(
    all: &mut [T],
    each: Duration,
    mut run: impl FnMut(&mut T) -> Result<f64, BenchError>,
) -> Result<Vec<Vec<f64>>, BenchError> {
    for one in &mut *all {
        run(one)?;
    }
    let begin = Instant::now();
    let mut seconds = vec![Vec::new(); all.len()];
    let budget = each * all.len() as u32;
    let mut turns = 0;
    while turns < *REPEATS.start() || (turns < *REPEATS.end() && begin.elapsed() < budget) {
        for (one, seconds) in all.iter_mut().zip(&mut seconds) {
            seconds.push(run(one)?);
        }
        turns += 1;
    }
    Ok(seconds)
}

/// The median of some numbers, 0 for none.
pub fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
#[path = "timing_tests.rs"]
mod tests;
