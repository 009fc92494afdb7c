//! Timing of runs: after a warm-up, synchronised with the device, repeated, and reported as the median.

use crate::BenchError;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Least and largest number of repetitions of a measurement.
const REPEATS: std::ops::RangeInclusive<usize> = 5..=50;
/// Time per measured work after which no further repetition starts.
const BUDGET: Duration = Duration::from_secs(3);
/// Time after which no further repetition starts if the fastest one counts, which takes only one quiet moment.
const BUDGET_OF_FASTEST: Duration = Duration::from_secs(1);

/// Statistics of the repetitions of some work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Median seconds.
    pub seconds: f64,
    /// First and third quartile, in seconds.
    pub quartiles: [f64; 2],
    /// Number of repetitions.
    pub runs: usize,
}

/// Spread of the repetitions around their median; half of them lie within the quartiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Number of repetitions.
    pub runs: usize,
    /// Milliseconds of the first quartile.
    pub q1_ms: f64,
    /// Milliseconds of the third quartile.
    pub q3_ms: f64,
}

/// Time of a result, and its rate of computation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Median milliseconds of a warm run.
    pub median_ms: f64,
    /// Spread of the repetitions.
    pub spread: Spread,
    /// GFLOP/s at the median time.
    pub gflops: f64,
}

impl Timing {
    /// Statistics of repetitions' seconds in any order; all 0 if there are none.
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

    /// Time and GFLOP/s of repetitions with `flops` floating-point operations each.
    pub fn speed(&self, flops: u64) -> Speed {
        Speed {
            median_ms: self.ms(),
            spread: self.spread(),
            gflops: flops as f64 / self.seconds / 1e9,
        }
    }

    /// Spread of the repetitions.
    pub fn spread(&self) -> Spread {
        let [q1_ms, q3_ms] = self.quartiles.map(|seconds| seconds * 1e3);
        Spread {
            runs: self.runs,
            q1_ms,
            q3_ms,
        }
    }
}

/// Times `run`, which has to wait for the device before it returns, after one run to warm up.
///
/// # Errors
/// The first error of `run`.
pub fn timing(mut run: impl FnMut() -> Result<(), BenchError>) -> Result<Timing, BenchError> {
    let [timing] = timings([&mut run])?;
    Ok(timing)
}

/// Seconds of the fastest of many runs, timed as in [`timing`]: what a machine can do when nothing disturbs it.
///
/// # Errors
/// The first error of `run`.
pub fn fastest(run: impl FnMut() -> Result<(), BenchError>) -> Result<f64, BenchError> {
    let seconds = turns(&mut [run], BUDGET_OF_FASTEST, |run| seconds_of(run))?;
    Ok(seconds.into_iter().flatten().fold(f64::INFINITY, f64::min))
}

/// Work to time.
pub type Run<'a> = &'a mut dyn FnMut() -> Result<(), BenchError>;

/// Times several runs in turns, so that changes of the machine's clock affect all of them; otherwise like [`timing`].
///
/// # Errors
/// The first error of a run.
pub fn timings<const N: usize>(mut runs: [Run; N]) -> Result<[Timing; N], BenchError> {
    let timings = timings_of(&mut runs, |run| seconds_of(run))?;
    Ok(std::array::from_fn(|run| timings[run]))
}

/// Times all of `all` in turns, as [`timings`] does; `run` runs one of them and returns its seconds.
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
/// The error of `run`.
pub fn seconds_of(run: impl FnOnce() -> Result<(), BenchError>) -> Result<f64, BenchError> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed().as_secs_f64())
}

/// Seconds of every repetition of each of `all`, run in turns after one warm-up run of each.
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

/// Median of `values`; 0 if there are none.
pub fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
#[path = "timing_tests.rs"]
mod tests;
