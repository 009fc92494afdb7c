//! Softmax of a row whose scores come a block at a time.

use crate::vector::exp;
use pulp::Simd;

/// The largest score of a row so far, and the sum of the others' exponentials by it.
#[derive(Clone, Copy)]
pub(super) struct Running {
    largest: f32,
    sum: f32,
}

impl Running {
    pub(super) fn new() -> Self {
        Self {
            largest: f32::NEG_INFINITY,
            sum: 0.0,
        }
    }

    /// Scores become exponentials by the largest so far; what came before shrinks by the factor that is returned.
    #[inline(always)]
    pub(super) fn add<S: Simd>(&mut self, simd: S, scores: &mut [f32]) -> f32 {
        let scores = S::as_mut_simd_f32s(scores).0;
        let mut largest = simd.splat_f32s(f32::NEG_INFINITY);
        for score in scores.iter() {
            largest = simd.max_f32s(largest, *score);
        }
        let before = self.largest;
        self.largest = before.max(simd.reduce_max_f32s(largest));
        // Nothing seen so far: exponentials of −∞ are 0 by any base but −∞.
        let base = if self.largest == f32::NEG_INFINITY {
            0.0
        } else {
            self.largest
        };
        let by = simd.splat_f32s(base);
        let mut sum = simd.splat_f32s(0.0);
        for score in scores.iter_mut() {
            *score = exp(simd, simd.sub_f32s(*score, by));
            sum = simd.add_f32s(sum, *score);
        }
        let shrink = if before == self.largest {
            1.0
        } else {
            (before - base).exp()
        };
        self.sum = self.sum * shrink + simd.reduce_sum_f32s(sum);
        shrink
    }

    /// The log-sum-exp, and what the row of sums is multiplied by; `None` where nothing is seen and there is no sink.
    #[inline(always)]
    pub(super) fn finish(self, sink: Option<f32>) -> Option<(f32, f32)> {
        let Some(sink) = sink else {
            // Not `> 0`: a NaN that is seen stays.
            let empty = self.sum == 0.0;
            return (!empty).then(|| (self.largest + self.sum.ln(), 1.0 / self.sum));
        };
        let largest = self.largest.max(sink);
        let shrink = (self.largest - largest).exp();
        let sum = self.sum * shrink + (sink - largest).exp();
        Some((largest + sum.ln(), shrink / sum))
    }
}
