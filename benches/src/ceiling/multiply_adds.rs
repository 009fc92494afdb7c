//! Peak of plain Rust code on this processor: independent multiply-adds in registers.

use crate::BenchError;
use crate::timing::fastest;
use pulp::{Simd, WithSimd};
use std::hint::black_box;
use std::thread::available_parallelism;

/// Independent sums per thread, enough to hide the latency of a multiply-add.
const CHAINS: usize = 12;
/// Multiply-adds per sum, which take some milliseconds.
const STEPS: usize = 1 << 20;

/// The multiply-adds of one thread.
#[derive(Clone, Copy)]
struct Chains {
    seed: f32,
}

impl WithSimd for Chains {
    /// A value that depends on all sums, and the number of lanes in a register.
    type Output = (f32, usize);

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let factor = simd.splat_f32s(self.seed);
        let mut sums: [S::f32s; CHAINS] =
            std::array::from_fn(|chain| simd.splat_f32s(self.seed + chain as f32));
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = simd.mul_add_e_f32s(*sum, factor, factor);
            }
        }
        let mut total = simd.splat_f32s(0.0);
        for sum in sums {
            total = simd.add_f32s(total, sum);
        }
        (simd.reduce_sum_f32s(total), S::F32_LANES)
    }
}

impl Chains {
    /// Runs the code compiled for the vector instructions that the process uses.
    fn run(self) -> (f32, usize) {
        #[cfg(target_arch = "x86_64")]
        {
            let used = moebius_host::simd();
            let wide = used >= moebius_host::Simd::Avx512;
            if let Some(avx512) = pulp::x86::V4::try_new().filter(|_| wide) {
                return avx512.vectorize(
                    #[inline(always)]
                    || self.with_simd(avx512),
                );
            }
            let some = used != moebius_host::Simd::Portable;
            if let Some(avx2) = pulp::x86::V3::try_new().filter(|_| some) {
                return avx2.vectorize(
                    #[inline(always)]
                    || self.with_simd(avx2),
                );
            }
        }
        pulp::Arch::new().dispatch(self)
    }
}

/// FLOP/s of one thread per processor together.
pub(super) fn rate() -> Result<f64, BenchError> {
    let threads = available_parallelism().map_or(1, usize::from);
    let (_, lanes) = Chains { seed: 0.5 }.run();
    let seconds = fastest(|| {
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let seed = black_box(0.5);
                    black_box(Chains { seed }.run())
                });
            }
        });
        Ok(())
    })?;
    Ok((2 * CHAINS * STEPS * lanes * threads) as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sum_is_left_out() {
        // Each sum converges to 1 from any start: a step halves it and adds a half.
        let (total, lanes) = Chains { seed: 0.5 }.run();
        assert_eq!(total, (CHAINS * lanes) as f32);
    }
}
