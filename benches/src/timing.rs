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
    run()?;
    let begin = Instant::now();
    let mut seconds = Vec::new();
    while seconds.len() < *REPEATS.start()
        || (seconds.len() < *REPEATS.end() && begin.elapsed() < BUDGET)
    {
        let start = Instant::now();
        run()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    Ok(middle(&mut seconds))
}

/// The median of some numbers, 0 for none.
pub fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_odd_count_is_the_median() {
        assert_eq!(middle(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(middle(&mut []), 0.0);
    }
}
