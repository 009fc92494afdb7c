//! What a dropout multiplies weights by: [`moebius_ops::attention::Dropout`] has the formula.

use super::super::routing::hash::mix;
use super::super::values::words;
use super::scores::Scores;
use super::walk::{Tile, part};
use crate::stablehlo::{Along, Builder, Value};
use moebius_pjrt::ElementType::{F32, S32, U32};
use moebius_pjrt::TensorType;

impl Scores<'_> {
    /// `x` of the pairs of a tile \[B, Hq, queries, keys\], times 0 or 1 / (1 − p); `x` itself without a dropout.
    pub(super) fn dropped(&self, b: &Builder, x: Value, at: Tile) -> Value {
        let Some(table) = self.terms.tables.dropout else {
            return x;
        };
        let table = words(b, table);
        let word = |n: f64| {
            let word = part(b, table, &[(0, b.scalar(n, S32), 1)]);
            b.reshape(word, &[])
        };
        let [batch, heads, queries, keys] = self.shape();
        let places = |count: usize, from: Option<Value>| {
            let places = b.iota(TensorType::new([count], S32), 0);
            let from = from.unwrap_or_else(|| b.scalar(0.0, S32));
            b.bitcast(b.add(places, Along(from, [])), U32)
        };
        let rows = [
            places(batch, None),
            places(heads, None),
            places(queries, Some(at.query)),
        ];
        let row = |seed: Value| {
            let mut shape = Vec::new();
            rows.iter().fold(seed, |row, places| {
                let dims: Vec<usize> = (0..shape.len()).collect();
                shape.extend(b.shape(*places));
                let row = b.broadcast(row, &shape, &dims);
                mix(b, b.add(row, Along(*places, [dims.len()])))
            })
        };
        let [first, second] = [word(0.0), word(1.0)].map(row);
        let hash = b.broadcast(places(keys, Some(at.key)), &self.shape(), &[3]);
        let hash = mix(b, b.xor(hash, Along(first, [0, 1, 2])));
        let hash = mix(b, b.add(hash, Along(second, [0, 1, 2])));
        let factor = b.convert(b.bitcast(word(3.0), F32), self.element);
        let kept = b.mul(x, Along(factor, []));
        b.select(b.lt(hash, Along(word(2.0), [])), b.splat_like(0.0, x), kept)
    }
}
