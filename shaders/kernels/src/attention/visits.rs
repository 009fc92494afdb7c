//! Which tiles of keys are visited, according to rules and tables.

use super::rules::{Kind, Kinds, Scalars, tile_of};
use cubecl::prelude::*;

/// The smallest and the largest of `count` words of a table from `first` on.
#[cube]
fn bounds(tables: &[u32], first: usize, count: usize) -> (u32, u32) {
    let mut least = tables[first];
    let mut most = tables[first];
    for i in 1..count {
        let word = tables[first + i];
        least = min(least, word);
        most = max(most, word);
    }
    (least, most)
}

/// Queries of a sequence that are processed together, from `first` to `last`, and the smallest and largest of their document ids.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Span {
    batch: usize,
    first: usize,
    last: usize,
    least: u32,
    most: u32,
}

/// The span of the queries from `first` to `last`.
#[cube]
pub(super) fn span(
    batch: usize,
    first: usize,
    last: usize,
    scalars: &Scalars,
    tables: &[u32],
    #[comptime] kinds: Kinds,
) -> Span {
    let (least, most) = if comptime!(kinds.any(&[Kind::Documents])) {
        let from = scalars.query_documents + batch * scalars.queries + first;
        bounds(tables, from, last + 1 - first)
    } else {
        (u32::from_int(0), u32::from_int(0))
    };
    Span {
        batch,
        first,
        last,
        least,
        most,
    }
}

/// [`moebius_ops::attention::Rules::tables_show`] for the keys from `first` to `last`: 0 if the tables hide all of them, else 1.
#[cube]
pub(super) fn tables_show(
    span: &Span,
    first: usize,
    last: usize,
    scalars: &Scalars,
    tables: &[u32],
    #[comptime] kinds: Kinds,
) -> u32 {
    let mut show = 1u32;
    if comptime!(kinds.any(&[Kind::Documents])) {
        let from = scalars.key_documents + span.batch * scalars.keys + first;
        let (least, most) = bounds(tables, from, last + 1 - first);
        let apart = span.most < least || most < span.least;
        show = select(apart, 0u32, show);
    }
    if comptime!(kinds.any(&[Kind::Blocks])) {
        let size = scalars.block;
        let across = scalars.keys.div_ceil(size);
        let mut seen = 0u32;
        for row in span.first / size..span.last / size + 1 {
            for column in first / size..last / size + 1 {
                seen = max(seen, tables[scalars.blocks + row * across + column]);
            }
        }
        show = min(show, seen);
    }
    show
}

/// How many pairs of the span's queries and the keys from `first` to `last` all rules show, coded like [`tile_of`].
#[cube]
pub(super) fn met_of(
    span: &Span,
    first: usize,
    last: usize,
    scalars: &Scalars,
    tables: &[u32],
    #[comptime] kinds: Kinds,
) -> u32 {
    let met = tile_of(span.first, span.last, first, last, scalars, kinds);
    if comptime!(kinds.skip_by_tables()) {
        min(met, tables_show(span, first, last, scalars, tables, kinds))
    } else {
        met
    }
}
