//! Exponentials and hyperbolic tangents of vectors.
//!
//! Both polynomials are those of Cephes' single precision functions (S. Moshier, netlib.org/cephes), within two units in
//! the last place of f32. NaN stays NaN.

use pulp::Simd;

/// A polynomial by Horner's rule, from the highest coefficient down.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(simd: S, x: S::f32s, coefficients: [f32; N]) -> S::f32s {
    let mut sum = simd.splat_f32s(coefficients[0]);
    for coefficient in &coefficients[1..] {
        sum = simd.mul_add_e_f32s(sum, x, simd.splat_f32s(*coefficient));
    }
    sum
}

/// eˣ of x up to 88; results below 2⁻¹²⁶ are 0.
#[inline(always)]
pub(crate) fn exp<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    // Adding 1.5 · 2²³ leaves the nearest whole number in the lowest bits.
    let round = simd.splat_f32s(12_582_912.0);
    let shifted = simd.mul_add_e_f32s(x, simd.splat_f32s(std::f32::consts::LOG2_E), round);
    let n = simd.sub_f32s(shifted, round);
    // ln 2 in two parts, of which the first has few bits.
    let r = simd.negate_mul_add_e_f32s(n, simd.splat_f32s(0.693_359_4), x);
    let r = simd.negate_mul_add_e_f32s(n, simd.splat_f32s(-2.121_944_4e-4), r);
    let high = polynomial(
        simd,
        r,
        [
            1.987_569_1e-4,
            1.398_199_9e-3,
            8.333_452e-3,
            4.166_579_6e-2,
            1.666_666_5e-1,
            0.5,
        ],
    );
    let one = simd.splat_f32s(1.0);
    let rest = simd.mul_add_e_f32s(high, simd.mul_f32s(r, r), r);
    let bits = simd.transmute_u32s_f32s(shifted);
    let exponent = simd.add_u32s(bits, simd.splat_u32s(127));
    let power = simd.wrapping_dyn_shl_u32s(exponent, simd.splat_u32s(23));
    let value = simd.mul_f32s(simd.add_f32s(rest, one), simd.transmute_f32s_u32s(power));
    let vanishes = simd.less_than_f32s(x, simd.splat_f32s(-87.336_54));
    simd.select_f32s(vanishes, simd.splat_f32s(0.0), value)
}

/// tanh x.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let one = simd.splat_f32s(1.0);
    let magnitude = simd.abs_f32s(x);
    let e = exp(simd, simd.mul_f32s(magnitude, simd.splat_f32s(-2.0)));
    let far = simd.div_f32s(simd.sub_f32s(one, e), simd.add_f32s(one, e));
    let negative = simd.less_than_f32s(x, simd.splat_f32s(0.0));
    let far = simd.select_f32s(negative, simd.neg_f32s(far), far);
    // Near 0 that difference has few bits left.
    let square = simd.mul_f32s(x, x);
    let ratio = polynomial(
        simd,
        square,
        [
            -5.704_988_7e-3,
            2.063_909e-2,
            -5.373_971_6e-2,
            1.333_144_2e-1,
            -3.333_328e-1,
        ],
    );
    let near = simd.mul_add_e_f32s(simd.mul_f32s(ratio, square), x, x);
    let is_near = simd.less_than_f32s(magnitude, simd.splat_f32s(0.625));
    simd.select_f32s(is_near, near, far)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::vectorized;
    use pulp::WithSimd;

    /// The functions of `values`, whose number is a multiple of all vectors' lanes.
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
}
