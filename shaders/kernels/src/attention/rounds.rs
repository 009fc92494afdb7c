//! Rounds of loops of the kernels of an attention; a user-defined rule's own loops aren't counted, because their text isn't known.

use super::rules::Kinds;
use super::shape::{LANES, Shape, Tiling};
use super::tensor_core;
use super::{KERNEL, Plan, Variant};
use crate::prelude::*;
use crate::rounds::{fits_rounds, looped};
use crate::segment_attention::head;
use moebius_ops::attention::{Problem, Rule, Sizes};
use moebius_ops::{AttentionPass, TableGradients};

impl Plan {
    /// Checks the rounds of a pass against the device's limit.
    ///
    /// # Errors
    /// [`Unsupported`] if one invocation would make more rounds of loops than the device allows.
    pub(crate) fn checked(
        self,
        pass: AttentionPass,
        device: &Capability,
    ) -> Result<Self, Unsupported> {
        // The ranges of keys are only walked for a device with a limit.
        if device.loop_rounds.is_some() {
            let rounds = match pass {
                AttentionPass::Forward => self.forward_rounds(),
                AttentionPass::Output(tables) => self.backward_rounds(tables, false),
                AttentionPass::LogSumExp(tables) => self.backward_rounds(tables, true),
            };
            fits_rounds(KERNEL, rounds, device)?;
        }
        Ok(self)
    }

    fn forward_rounds(&self) -> usize {
        match (self.variant, self.tiling) {
            (Variant::Cpu, _) => 0,
            (Variant::TensorCore, Some(tiling)) => {
                of_tiles(&self.problem, tiling, tensor_core::rounds(self))
            }
            (_, Some(tiling)) => of_tiles(&self.problem, tiling, self.tile_rounds(tiling.shape)),
            (_, None) => {
                let [keys, values] = self.head_rounds();
                let pairs = looped(self.most_keys(), keys + 2 * values);
                keys + 2 * values + pairs
            }
        }
    }

    /// Rounds of a loop over the vectors of a head of keys, and of values.
    fn head_rounds(&self) -> [usize; 2] {
        let s = self.problem.sizes();
        [s.head_dim, s.value_dim].map(|dim| head::rounds(dim / self.lanes))
    }

    /// The largest number of keys that a query may see.
    fn most_keys(&self) -> usize {
        let p = &self.problem;
        let keys = (0..p.sizes().queries).map(|query| p.keys_of(query..query + 1).len());
        keys.max().unwrap_or(0)
    }

    /// The largest number of queries that may see a key.
    fn most_queries(&self) -> usize {
        let p = &self.problem;
        let queries = (0..p.sizes().keys).map(|key| p.queries_of(key..key + 1).len());
        queries.max().unwrap_or(0)
    }

    /// Rounds of the `tile` and `rows` variants in one tile of keys.
    fn tile_rounds(&self, shape: Shape) -> usize {
        let s = self.problem.sizes();
        let steps = shape.keys / LANES;
        let lanes = looped(LANES, 0);
        if shape.staged {
            let loads = [s.head_dim, s.value_dim]
                .map(|dim| looped((shape.keys * dim / LANES).div_ceil(shape.units), 0));
            return loads[0] + loads[1] + looped(steps, 3 * lanes);
        }
        let rows = if Kinds::of(&self.problem).read_tables() {
            looped(shape.rows, 0)
        } else {
            0
        };
        looped(steps, lanes + rows)
    }

    fn backward_rounds(&self, tables: TableGradients, through_lse: bool) -> usize {
        if self.variant == Variant::Cpu {
            return 0;
        }
        let s = self.problem.sizes();
        let [keys, values] = self.head_rounds();
        let statistics = 2 * values;
        let of_query = 3 * keys + values + looped(self.most_keys(), 2 * keys + values);
        let of_pair = keys + values + keys.max(values);
        let of_key = 2 * keys + 2 * values;
        let of_key = of_key + looped(self.problem.group(), looped(self.most_queries(), of_pair));
        // Each pair loads its heads again.
        let pair = 2 * keys + if through_lse { 0 } else { 2 * values };
        let mut rounds = [statistics, of_query, of_key, 0, 0, 0];
        if let Some(pattern) = self.problem.rules().bias().filter(|_| tables.bias) {
            let each = |own: bool, size: usize| if own { 1 } else { size };
            let heads = looped(each(pattern.heads, s.heads), pair);
            rounds[3] = looped(each(pattern.batch, s.batch), heads);
        }
        if let Some(reach) = self.problem.rules().relative().filter(|_| tables.relative) {
            rounds[4] = looped(s.batch, relative(&self.problem, reach, pair));
        }
        if tables.sinks {
            rounds[5] = looped(s.batch, looped(s.queries, 0));
        }
        rounds.into_iter().max().unwrap_or(0)
    }
}

/// Rounds over the tiles of keys that a block of queries meets, `inside` in each.
fn of_tiles(problem: &Problem, Tiling { shape, .. }: Tiling, inside: usize) -> usize {
    let s = problem.sizes();
    let size = shape.keys;
    let met = (0..s.queries).step_by(shape.queries()).map(|first| {
        let keys = problem.keys_of(first..(first + shape.queries()).min(s.queries));
        keys.end.div_ceil(size) - keys.start / size
    });
    let (span, tables) = tables(problem, s, shape);
    span + looped(met.max().unwrap_or(0), tables + inside)
}

/// Rounds of the lookups in tables of documents and blocks, for the queries of a block and for each tile of keys.
fn tables(problem: &Problem, s: &Sizes, shape: Shape) -> (usize, usize) {
    let rules = problem.rules();
    let (queries, keys) = (shape.queries().min(s.queries), shape.keys.min(s.keys));
    let (mut span, mut tile) = (0, 0);
    if rules.has(Rule::Documents) {
        span += looped(queries, 0);
        tile += looped(keys, 0);
    }
    if let Some(size) = rules.blocks() {
        // A range may begin and end within blocks.
        let blocks = |n: usize| n.div_ceil(size) + 1;
        tile += looped(blocks(queries), looped(blocks(keys), 0));
    }
    (span, tile)
}

/// Rounds over the queries of a sequence for an element of the table of biases by distance, `pair` for each pair. The two
/// outermost distances sum all pairs beyond them; invocations of both may run together.
fn relative(problem: &Problem, reach: usize, pair: usize) -> usize {
    let s = problem.sizes();
    let (reach, keys) = (reach as i64, s.keys as i64);
    let of_query = |query: usize| {
        let place = problem.position(query);
        let behind = (place - reach + 1).clamp(0, keys);
        let ahead = keys - (place + reach).clamp(0, keys);
        looped(behind.max(ahead).max(1) as usize, pair).saturating_add(1)
    };
    let rounds = (0..s.queries).map(of_query);
    rounds.fold(1 + looped(1, pair), usize::saturating_add)
}
