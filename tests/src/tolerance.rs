//! Tolerances per element type, and comparisons.

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
/// f32: a gradient passes three sums of products and an exponential, and small differences of large terms (router logits),
/// hence 1e-4, as for the case files from PyTorch. f16 and bf16: twice the roundings of a forward, each once per product.
pub fn gradient_rel_l2(element: Element) -> f64 {
    match element {
        Element::F32 => 1e-4,
        Element::F16 => 4e-3,
        Element::Bf16 => 3e-2,
    }
}

/// Asserts that a gradient of `element` is close as a whole, and in each element: an element may be off by four times the
/// tolerance, relative to its own and a typical magnitude, so that one wrong zero shows.
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

/// Largest difference of two devices' losses at the same step of a tiny training, in nats per byte.
///
/// Perturbing the initial weights by a relative 1e-6, more than devices differ by the order of their sums, moves this curve on
/// Flex by at most 2e-6 while every token keeps its experts; the tolerance is a hundred times that, because differences
/// accumulate. A single token that changes its expert moves the curve by about 2e-3: with the tests' seeds none is that near to
/// a tie.
pub const CURVE: f32 = 2e-4;

/// As [`CURVE`], for a training in FP8 in the few steps after a checkpoint: where devices' sums differ in the last bit, some
/// values are rounded to another code.
pub const CURVE_FP8: f32 = 5e-3;

/// The relative error ‖got − want‖ / ‖want‖, infinite if there is an unmatched NaN or the lengths differ.
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

/// Asserts that the relative error of `got` is at most `tolerance`; a failure prints the numbers.
pub fn assert_close(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    let error = relative_error(got, want);
    assert!(
        error <= tolerance,
        "{what}: relative L2 error {error:.3e}, expected at most {tolerance:.0e}; got {:?}.. want {:?}..",
        &got[..got.len().min(6)],
        &want[..want.len().min(6)],
    );
}
