//! How time is measured: warm, synchronised, repeated, the median.

use crate::BenchError;
use std::time::{Duration, Instant};

/// Least and most repetitions of a measurement.
const REPEATS: std::ops::RangeInclusive<usize> = 5..=50;
/// Time after which no further repetition starts.
const BUDGET: Duration = Duration::from_secs(3);

/// Median seconds of `run`, which waits for the device before it returns; one run to warm up.
///
/// # Errors
/// The first error of `run`.
pub fn median(mut run: impl FnMut() -> Result<(), BenchError>) -> Result<f64, BenchError> {
    let [seconds] = medians([&mut run])?;
    Ok(seconds)
}

/// Seconds of the fastest of many runs, as of [`median`]: what a machine can do when nothing disturbs it.
///
/// # Errors
/// The first error of `run`.
pub fn fastest(run: impl FnMut() -> Result<(), BenchError>) -> Result<f64, BenchError> {
    let seconds = turns(&mut [run], |run| seconds_of(run))?;
    Ok(seconds.into_iter().flatten().fold(f64::INFINITY, f64::min))
}

/// Something to time.
pub type Run<'a> = &'a mut dyn FnMut() -> Result<(), BenchError>;

/// [`median`] of several, in turns, so that a machine whose clock moves moves it for all of them.
///
/// # Errors
/// The first error of a run.
pub fn medians<const N: usize>(mut runs: [Run; N]) -> Result<[f64; N], BenchError> {
    let medians = medians_of(&mut runs, |run| seconds_of(run))?;
    Ok(std::array::from_fn(|run| medians[run]))
}

/// [`medians`] of as many as there are; `run` runs one and says how many seconds it took.
///
/// # Errors
/// The first error of a run.
pub fn medians_of<T>(
    all: &mut [T],
    run: impl FnMut(&mut T) -> Result<f64, BenchError>,
) -> Result<Vec<f64>, BenchError> {
    let seconds = turns(all, run)?.into_iter();
    Ok(seconds.map(|mut seconds| middle(&mut seconds)).collect())
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
    mut run: impl FnMut(&mut T) -> Result<f64, BenchError>,
) -> Result<Vec<Vec<f64>>, BenchError> {
    for one in &mut *all {
        run(one)?;
    }
    let begin = Instant::now();
    let mut seconds = vec![Vec::new(); all.len()];
    let budget = BUDGET * all.len() as u32;
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
