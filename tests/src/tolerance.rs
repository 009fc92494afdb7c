//! How close is close enough, per type, and the comparison itself.

use moebius_ops::Element;

/// Largest relative L2 error of a sum of products against the f64 oracle.
///
/// f32: sums of at most 4096 products in one order err by about √4096 · 2⁻²⁴ ≈ 4e-6. f16 and bf16:
/// the hidden activations are rounded once to 11 or 8 bits, so half a unit in the last place
/// (4.9e-4, 3.9e-3) per value, which the second product averages; twice that covers both roundings.
pub fn rel_l2(element: Element) -> f64 {
    match element {
        Element::F32 => 1e-5,
        Element::F16 => 1e-3,
        Element::Bf16 => 8e-3,
    }
}

/// Largest relative L2 error of a gradient against the f64 oracle.
///
/// f32: a gradient passes three sums of products and an exponential, and small differences of large
/// terms (router logits), so 1e-4, as the case files from PyTorch. f16 and bf16: twice the roundings
/// of a forward, each once per product.
pub fn gradient_rel_l2(element: Element) -> f64 {
    match element {
        Element::F32 => 1e-4,
        Element::F16 => 4e-3,
        Element::Bf16 => 3e-2,
    }
}

/// Fails with the numbers when a gradient of `element` is off as a whole, or in any one element, as a zero
/// among many is: by more than four times what the whole may be off by, of itself and a typical one.
pub fn assert_gradient(what: &str, got: &[f32], want: &[f64], element: Element) {
    let tolerance = gradient_rel_l2(element);
    assert_close(what, got, want, tolerance);
    let squares = want.iter().map(|want| want * want);
    let typical = (squares.sum::<f64>() / want.len().max(1) as f64).sqrt();
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let (got, allowed) = (f64::from(*got), 4.0 * tolerance * (typical + want.abs()));
        assert!(
            (got - want).abs() <= allowed,
            "{what}[{at}]: {got} for {want}, within {allowed:.1e}"
        );
    }
}

/// Largest difference of two devices' losses at the same step of a tiny training, in nats a byte.
///
/// First weights that are moved by a relative 1e-6, more than devices differ in the order of their
/// sums, move this curve on flex by at most 2e-6 as long as every token keeps its experts; hundred
/// times that is left for accumulation. A single token that takes another expert moves it by about
/// 2e-3: with the seeds of the tests none is that near to a tie.
pub const CURVE: f32 = 2e-4;

/// The same of a training in FP8, in the few steps after a checkpoint: where devices' sums differ in the last
/// bit, some values are rounded to the next code.
pub const CURVE_FP8: f32 = 5e-3;

/// ‖got − want‖ / ‖want‖, infinite when a NaN or the length doesn't match.
pub fn relative_error(got: &[f32], want: &[f64]) -> f64 {
    if got.len() != want.len() {
        return f64::INFINITY;
    }
    let (mut error, mut norm) = (0.0, 0.0);
    for (got, want) in got.iter().zip(want) {
        if got.is_nan() != want.is_nan() {
            return f64::INFINITY;
        }
        if !want.is_nan() {
            error += (f64::from(*got) - want).powi(2);
            norm += want.powi(2);
        }
    }
    if error == 0.0 {
        0.0
    } else {
        (error / norm).sqrt()
    }
}

/// Fails with the numbers when `got` is further from `want` than `tolerance`.
pub fn assert_close(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    let error = relative_error(got, want);
    assert!(
        error <= tolerance,
        "{what}: relative L2 error {error:.3e}, expected at most {tolerance:.0e}; got {:?}.. want {:?}..",
        &got[..got.len().min(6)],
        &want[..want.len().min(6)],
    );
}
