//! The parts of a softmax: eˣ for numbers that are at most 0 or NaN, in fewer steps than CubeCL's, which accepts any number; the
//! end of a row; and dropout, whose words come first among the tables ([`moebius_ops::attention::Dropout`] defines which weights
//! it drops).

use super::Form;
use super::rules::{Scalars, Site};
use crate::routing::hash::{mix, mix_one};
use cubecl::prelude::*;

/// 1.5 · 2²³: the last bits of the sum of it and a small number are that number rounded to an integer.
const ROUND: f32 = 12_582_912.0;

// A polynomial of degree six for 2^f with |f| ≤ 1/2, accurate to 2e-8: CubeCL's polynomial for exp, in powers of ln 2.
const C1: f32 = std::f32::consts::LN_2;
const C2: f32 = 0.240_226_46;
const C3: f32 = 0.055_503_286;
const C4: f32 = 0.009_618_488;
const C5: f32 = 0.001_339_993_1;
const C6: f32 = 0.000_153_458_12;

/// eˣ with a relative error of 2e-7, 0 for results below 2⁻¹²⁶, and exactly 1 for 0.
#[cube]
pub(crate) fn exp<N: Size>(x: Vector<f32, N>) -> Vector<f32, N> {
    let round = Vector::<f32, N>::new(ROUND);
    let power = x * Vector::new(std::f32::consts::LOG2_E);
    let low = power.max(Vector::new(-127.0f32));
    let shifted = low + round;
    let f = low - (shifted - round);
    let mut series = fma(Vector::new(C6), f, Vector::new(C5));
    series = fma(series, f, Vector::new(C4));
    series = fma(series, f, Vector::new(C3));
    series = fma(series, f, Vector::new(C2));
    series = fma(series, f, Vector::new(C1));
    series = fma(series, f, Vector::new(1.0f32));
    let exponent = Vector::<u32, N>::reinterpret(shifted) + Vector::new(127u32);
    let whole = Vector::<f32, N>::reinterpret(exponent << Vector::new(23u32));
    select_many(x.equal(&x), series * whole, x)
}

/// The largest of `number` and the lanes of `register`.
#[cube]
pub(crate) fn highest<N: Size>(register: Vector<f32, N>, number: f32) -> f32 {
    let mut top = number;
    #[unroll]
    for lane in 0..N::value() {
        top = max(top, register.extract(lane));
    }
    top
}

/// Ends a row, given its largest score and its sum of exponentials (0 if no key was seen): returns the factor of its sums of
/// values, and its log-sum-exp, both including the head's sink.
#[cube]
pub(super) fn ended(
    top: f32,
    total: f32,
    head: usize,
    scalars: &Scalars,
    tables: &[u32],
    #[comptime] form: Form,
) -> (f32, f32) {
    let (mut top, mut total) = (top, total);
    let mut share = 1.0f32;
    if comptime!(form.sinks) {
        let sink = f32::reinterpret(tables[scalars.sinks + head]);
        let raised = max(top, sink);
        share = (top - raised).exp();
        total = fma(total, share, (sink - raised).exp());
        top = raised;
    }
    let mut log = f32::min_value();
    // Compares bits, because a NaN sum has seen a key, too.
    if u32::reinterpret(total) != 0u32 {
        share /= total;
        log = top + total.ln();
    } else {
        share = 0.0f32;
    }
    (share, log)
}

/// The part of a dropout's hash that depends on the query, with threshold and factor.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Row {
    first: u32,
    second: u32,
    threshold: u32,
    factor: f32,
}

#[cube]
pub(super) fn row_of<N: Size>(site: &Site<N>, tables: &[u32]) -> Row {
    Row {
        first: word_of::<N>(tables[0], site),
        second: word_of::<N>(tables[1], site),
        threshold: tables[2],
        factor: f32::reinterpret(tables[3]),
    }
}

/// The dropout's [`Row`] of a query; without a dropout, a row that nothing reads.
#[cube]
pub(super) fn row_or_none<N: Size>(site: &Site<N>, tables: &[u32], #[comptime] form: Form) -> Row {
    if comptime!(form.dropout) {
        row_of::<N>(site, tables)
    } else {
        Row {
            first: 0u32.runtime(),
            second: 0u32.runtime(),
            threshold: 0u32.runtime(),
            factor: 1.0f32.runtime(),
        }
    }
}

#[cube]
fn word_of<N: Size>(seed: u32, site: &Site<N>) -> u32 {
    let word = mix_one(mix_one(seed + site.batch as u32) + site.head as u32);
    mix_one(word + site.query as u32)
}

/// The dropout's factors of the weights of the site's keys.
#[cube]
pub(super) fn factors<N: Size>(row: &Row, site: &Site<N>) -> Vector<f32, N> {
    let keys = Vector::<u32, N>::new(site.key as u32) + Vector::cast_from(site.lanes);
    let hash = mix::<N>(mix::<N>(keys ^ Vector::new(row.first)) + Vector::new(row.second));
    let none = hash.less_than(&Vector::new(row.threshold));
    select_many(none, Vector::new(0.0f32), Vector::new(row.factor))
}

/// The dropout's factors of the weights of the site's keys; 1 without a dropout.
#[cube]
pub(super) fn factors_or_one<N: Size>(
    row: &Row,
    site: &Site<N>,
    #[comptime] form: Form,
) -> Vector<f32, N> {
    if comptime!(form.dropout) {
        factors::<N>(row, site)
    } else {
        Vector::new(1.0f32)
    }
}

/// Two numbers of a pair, each times the dropout's factor of the pair.
#[cube]
pub(super) fn dropped(
    weight: f32,
    product: f32,
    site: &Site<Const<1>>,
    tables: &[u32],
    #[comptime] form: Form,
) -> (f32, f32) {
    if comptime!(form.dropout) {
        let row = row_of::<Const<1>>(site, tables);
        let factor = factors::<Const<1>>(&row, site).extract(0usize);
        (weight * factor, product * factor)
    } else {
        (weight, product)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_fits_the_power() {
        for i in 0..=20_000 {
            let f = f64::from(i) / 20_000.0 - 0.5;
            let coefficients = [C6, C5, C4, C3, C2, C1, 1.0];
            let series = coefficients.iter().fold(0.0, |s, c| s * f + f64::from(*c));
            assert!((series / f.exp2() - 1.0).abs() < 3e-8, "{f}");
        }
    }
}
