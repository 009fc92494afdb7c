//! Which tiles of keys are visited, where tables tell, and how many that are.

use super::rules::{Kind, Kinds, Scalars, tile_of};
use super::{Plan, Variant, cpu};
use cubecl::prelude::*;
use moebius_ops::attention::{Tables, Tile};
use std::ops::Range;

/// The least and the largest of so many words of a table from `first` on.
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

/// Queries of a sequence that meet keys together, the first and the last, and the least and the largest of their documents.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Span {
    batch: usize,
    first: usize,
    last: usize,
    least: u32,
    most: u32,
}

/// The span of the queries from `queries.0` to `queries.1`.
#[cube]
pub(super) fn span(
    batch: usize,
    queries: (usize, usize),
    scalars: &Scalars,
    tables: &[u32],
    #[comptime] kinds: Kinds,
) -> Span {
    let (first, last) = queries;
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

/// [`moebius_ops::attention::Rules::tables_show`], with keys by their first and last: 0 where it doesn't, without a table 1.
#[cube]
pub(super) fn tables_show(
    span: &Span,
    keys: (usize, usize),
    scalars: &Scalars,
    tables: &[u32],
    #[comptime] kinds: Kinds,
) -> u32 {
    let mut show = 1u32;
    if comptime!(kinds.any(&[Kind::Documents])) {
        let first = scalars.key_documents + span.batch * scalars.keys + keys.0;
        let (least, most) = bounds(tables, first, keys.1 + 1 - keys.0);
        let apart = span.most < least || most < span.least;
        show = select(apart, 0u32, show);
    }
    if comptime!(kinds.any(&[Kind::Blocks])) {
        let size = scalars.block;
        let across = scalars.keys.div_ceil(size);
        let mut seen = 0u32;
        for row in span.first / size..span.last / size + 1 {
            for column in keys.0 / size..keys.1 / size + 1 {
                seen = max(seen, tables[scalars.blocks + row * across + column]);
            }
        }
        show = min(show, seen);
    }
    show
}

/// How many pairs of queries and keys all rules let see, as [`tile_of`] tells it.
#[cube]
pub(super) fn met_of(
    span: &Span,
    keys: (usize, usize),
    scalars: &Scalars,
    tables: &[u32],
    #[comptime] kinds: Kinds,
) -> u32 {
    let met = tile_of((span.first, span.last), keys, scalars, kinds);
    if comptime!(kinds.skip_by_tables()) {
        min(met, tables_show(span, keys, scalars, tables, kinds))
    } else {
        met
    }
}

impl Plan {
    /// The same, with a forward pass that writes, in place of each log-sum-exp, how many tiles of keys it visited for the query; keys for
    /// [`Variant::Unit`].
    pub fn counting(self) -> Self {
        Self {
            counted: true,
            ..self
        }
    }

    /// What [`Plan::counting`] counts, \[B, Hq, Sq\], as it follows from the rules and from the tables of documents and blocks.
    pub fn visited(&self, tables: &Tables<'_>) -> Vec<usize> {
        let (p, s) = (&self.problem, self.problem.sizes());
        let mut visited = Vec::with_capacity(p.query_rows());
        for batch in 0..s.batch {
            for head in 0..s.heads {
                let of = |query| self.visited_by([batch, head % p.group(), query], tables);
                visited.extend((0..s.queries).map(of));
            }
        }
        visited
    }

    /// What query `query` of a head, by its place in its group, visits.
    fn visited_by(&self, [batch, head, query]: [usize; 3], tables: &Tables<'_>) -> usize {
        let (s, group) = (self.problem.sizes(), self.problem.group());
        let shared = |first: usize, size: usize| first..(first + size).min(s.queries);
        match (self.variant, self.tile) {
            (_, Some((shape, _))) => {
                let block = shared(query / shape.queries() * shape.queries(), shape.queries());
                self.tiles(batch, [block.clone(), block], shape.keys, tables)
            }
            (Variant::Cpu, None) => {
                let row = query * group + head;
                let [block, strip] = cpu::shared_with(row, s.queries * group)
                    .map(|rows| rows.start / group..(rows.end - 1) / group + 1);
                self.tiles(batch, [block, strip], cpu::tile_keys(self), tables)
            }
            _ => self.problem.keys_of(query..query + 1).len(),
        }
    }

    /// Tiles of so many keys whose keys the tables may show the queries of a block, and the other rules those of its part.
    fn tiles(
        &self,
        batch: usize,
        [block, part]: [Range<usize>; 2],
        size: usize,
        tables: &Tables<'_>,
    ) -> usize {
        let (rules, s) = (self.problem.rules(), self.problem.sizes());
        let near = self.problem.keys_of(block.clone());
        let met = |at: &usize| {
            let keys = at * size..((at + 1) * size).min(s.keys);
            let show = || rules.tables_show(s, tables, batch, (block.clone(), keys.clone()));
            rules.tile(s, part.clone(), keys.clone()) != Tile::Empty && show()
        };
        (near.start / size..near.end.div_ceil(size))
            .filter(met)
            .count()
    }
}
