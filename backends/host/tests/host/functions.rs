//! Exponentials and hyperbolic tangents, compiled here once more: results of operations show them with other roundings.

use crate::vector::{exp, tanh, vectorized};
use pulp::{Simd, WithSimd};

/// The values for which both functions are computed; their number is a multiple of the lanes of all vectors.
struct Both<'a>(&'a [f32]);

impl WithSimd for Both<'_> {
    type Output = [Vec<f32>; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let mut of = [self.0.to_vec(), self.0.to_vec()];
        for x in S::as_mut_simd_f32s(&mut of[0]).0 {
            *x = exp(simd, *x);
        }
        for x in S::as_mut_simd_f32s(&mut of[1]).0 {
            *x = tanh(simd, *x);
        }
        of
    }
}

#[test]
fn as_in_f64() {
    let xs: Vec<f32> = (0..65_536).map(|i| -100.0 + i as f32 * 0.002).collect();
    let [e, t] = vectorized(Both(&xs));
    for ((x, e), t) in xs.iter().zip(e).zip(t) {
        let x = f64::from(*x);
        let close = |got: f32, want: f64| (f64::from(got) - want).abs() <= 2.5e-7 * want.abs();
        assert!(close(e, x.exp()) || x < -87.3 && e == 0.0, "exp {x}: {e}");
        assert!(close(t, x.tanh()), "tanh {x}: {t}");
    }
}

#[test]
fn special_values() {
    let xs = [f32::NAN, f32::NEG_INFINITY, 0.0, -0.0].repeat(16);
    let [e, t] = vectorized(Both(&xs));
    assert!(e[0].is_nan() && t[0].is_nan());
    assert_eq!((e[1], t[1]), (0.0, -1.0));
    assert_eq!((e[2], t[2], e[3]), (1.0, 0.0, 1.0));
}
