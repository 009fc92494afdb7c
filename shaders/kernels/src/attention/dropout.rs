//! Dropout on a device: [`moebius_ops::attention::Dropout`] says which weights it drops. Its words are the first of the tables.

use super::Form;
use super::rules::Site;
use crate::routing::hash::{mix, mix_one};
use cubecl::prelude::*;

/// What follows from a query and the dropout's words.
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

/// The same; without a dropout a row that nothing reads.
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

/// What the weights of the site's keys are multiplied by.
#[cube]
pub(super) fn factors<N: Size>(row: &Row, site: &Site<N>) -> Vector<f32, N> {
    let keys = Vector::<u32, N>::new(site.key as u32) + Vector::cast_from(site.lanes);
    let hash = mix::<N>(mix::<N>(keys ^ Vector::new(row.first)) + Vector::new(row.second));
    let none = hash.less_than(&Vector::new(row.threshold));
    select_many(none, Vector::new(0.0f32), Vector::new(row.factor))
}

/// The same; 1 without a dropout.
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

/// Two numbers of a pair times what its weight is multiplied by.
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
