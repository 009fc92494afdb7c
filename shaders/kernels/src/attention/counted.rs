//! How many tiles of keys a plan visits.

use super::shape::Tiling;
use super::{Plan, Variant, cpu};
use moebius_ops::attention::{Tables, Tile};
use std::ops::Range;

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
        match (self.variant, self.tiling) {
            (_, Some(Tiling { shape, .. })) => {
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
