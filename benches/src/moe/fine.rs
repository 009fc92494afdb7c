//! The comparison of few large experts with many small ones of the same FLOPs.

use super::{MoeBench, MoeReport, Prepared};
use crate::timing::timings;
use crate::{BenchError, Progress};
use moebius::Error;
use moebius_ops::Fault;
use serde::Serialize;

/// Least accepted tokens per second of many small experts, as a share of those of few large ones.
pub const TARGET_RATIO: f64 = 0.7;
/// Largest accepted share of router, sort and combine in a forward, at hidden 1024.
pub const TARGET_OVERHEAD: f64 = 0.1;

/// Results of both layers; numbers mean something only when both are verified.
#[derive(Clone, Debug, Serialize)]
pub struct FineReport {
    /// Layer with 8 experts of width 2H, 2 per token.
    pub coarse: MoeReport,
    /// Layer with 64 experts of width H/2, 8 per token.
    pub fine: MoeReport,
    /// Tokens per second of `fine`, divided by those of `coarse`.
    pub tokens_ratio: f64,
}

/// The coarse and the fine layer, with the width, batch, type and device of `bench`.
///
/// # Errors
/// [`BenchError::Refused`] for a width that can't be halved or doubled.
pub fn layers(bench: &MoeBench) -> Result<[MoeBench; 2], BenchError> {
    let refused = || {
        let error = Fault::Config.error("hidden", "an even number below 2^31", bench.hidden);
        Error::from(error)
    };
    let double = bench.hidden.checked_mul(2).ok_or_else(refused)?;
    if !bench.hidden.is_multiple_of(2) {
        return Err(refused().into());
    }
    let of = |experts, top_k, inter| MoeBench {
        experts,
        top_k,
        inter: Some(inter),
        peer: None,
        ..*bench
    };
    Ok([of(8, 2, double), of(64, 8, bench.hidden / 2)])
}

/// Verifies both layers, then measures them in turns; `progress` is called with each step.
///
/// # Errors
/// [`BenchError`] when [`layers`] refuses the width, or the device refuses or fails.
pub fn compare(bench: &MoeBench, progress: Progress) -> Result<FineReport, BenchError> {
    let [coarse_bench, fine_bench] = layers(bench)?;
    let coarse = Prepared::new(&coarse_bench, progress)?;
    let fine = Prepared::new(&fine_bench, progress)?;
    progress("measuring");
    let runs = timings([&mut || coarse.forward(), &mut || fine.forward()])?;
    progress("measuring the peak");
    let ceilings = coarse.setup.place.ceilings()?;
    progress("measuring the stages");
    let coarse = coarse.report(&coarse_bench, runs[0], ceilings.clone())?;
    let fine = fine.report(&fine_bench, runs[1], ceilings)?;
    Ok(FineReport {
        tokens_ratio: fine.tokens_per_s / coarse.tokens_per_s,
        coarse,
        fine,
    })
}

#[cfg(test)]
#[path = "fine_tests.rs"]
mod tests;
