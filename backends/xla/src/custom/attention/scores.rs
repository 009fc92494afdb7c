//! Scores of a tile under the rules, the pairs that are seen, and the dropout of their weights.

use super::super::routing::mix;
use super::super::values::words;
use super::relative;
use super::walk::{Tables, Terms, Tile, Walk, part};
use crate::stablehlo::{Along, Builder, Repeated, Unary, Value};
use moebius_ops::attention::{Rule, Tile as Seen};
use moebius_pjrt::ElementType::{self, F32, S32, U32};
use moebius_pjrt::TensorType;

/// What the scores of every tile are computed from. Tensors of pairs are \[B, Hq, queries, keys\].
pub(super) struct Scores<'a> {
    pub(super) terms: &'a Terms<'a>,
    pub(super) walk: &'a Walk,
    /// The tables, padded to whole blocks; `relative` is the result of [`relative::diagonals`].
    tables: Tables,
    /// Whether some pair isn't seen, padding included.
    pub(super) hides: bool,
    /// The element type of scores.
    pub(super) element: ElementType,
}

/// A tile's scores, and the slope of their cap.
pub(super) struct Scored {
    pub(super) score: Value,
    /// The index of the rule that caps scores, and the derivative of the cap.
    cap: Option<(usize, Value)>,
}

/// The places of pairs: i32 tensors of one shape.
pub(in crate::custom) struct Places {
    pub(in crate::custom) query: Value,
    pub(in crate::custom) key: Value,
    /// The query's position less the key's.
    pub(in crate::custom) back: Value,
}

impl<'a> Scores<'a> {
    pub(super) fn new(
        b: &Builder,
        terms: &'a Terms<'a>,
        walk: &'a Walk,
        element: ElementType,
    ) -> Self {
        let (given, s) = (&terms.tables, terms.problem.sizes());
        let some = s.queries > 0 && s.keys > 0;
        let ruled = || {
            let tile = terms.problem.rules();
            tile.tile(s, 0..s.queries, 0..s.keys) != Seen::Full
        };
        let hides = some && (walk.padded() != walk.total || ruled());
        let pairs = |x| {
            // Burn's tables may have one row or column for all queries or keys.
            let shape = b.shape(x);
            let x = b.broadcast_to(x, &[shape[0], shape[1], s.queries, s.keys]);
            walk.pad_keys(b, walk.pad_queries(b, x, 2), 3)
        };
        let relative = given
            .relative
            .filter(|_| some)
            .map(|x| relative::diagonals(b, terms.problem, walk, (x, element)));
        let tables = Tables {
            query_documents: given.query_documents.map(|x| walk.pad_queries(b, x, 1)),
            key_documents: given.key_documents.map(|x| walk.pad_keys(b, x, 1)),
            mask: given.mask.map(pairs),
            bias: given.bias.map(pairs),
            relative,
            ..*given
        };
        Self {
            terms,
            walk,
            tables,
            hides,
            element,
        }
    }

    /// The shape of a tile's scores: \[B, Hq, queries, keys\].
    pub(super) fn shape(&self) -> [usize; 4] {
        let s = self.terms.problem.sizes();
        [s.batch, s.heads, self.walk.queries, self.walk.keys]
    }

    fn places(&self, b: &Builder, at: Tile) -> Places {
        let [_, _, queries, keys] = self.shape();
        let ty = TensorType::new([queries, keys], S32);
        let [query, key] = [(0, at.query), (1, at.key)]
            .map(|(dim, start)| b.add(b.iota(ty.clone(), dim), Along(start, [])));
        let position = b.add(query, self.terms.problem.position(0) as f64);
        Places {
            query,
            key,
            back: b.sub(position, key),
        }
    }

    /// The pairs of a tile that are seen, booleans \[B, Hq, queries, keys\]; `None` if all are.
    pub(super) fn seen(&self, b: &Builder, at: Tile) -> Option<Value> {
        if !self.hides {
            return None;
        }
        let places = self.places(b, at);
        let mut square = Vec::new();
        let [queries, keys] = self.walk.total;
        if self.walk.padded() != self.walk.total {
            square.push(b.lt(places.query, queries as f64));
            square.push(b.lt(places.key, keys as f64));
        }
        let mut seen = Vec::new();
        for rule in self.terms.problem.rules().iter() {
            square.extend(by_place(b, rule, &places));
            seen.extend(self.by_table(b, rule, at));
        }
        if let Some(square) = all(b, &square) {
            seen.push(b.broadcast(square, &self.shape(), &[2, 3]));
        }
        all(b, &seen)
    }

    /// The pairs that a rule with a table lets be seen, \[B, Hq, queries, keys\]; `None` for other rules.
    fn by_table(&self, b: &Builder, rule: Rule, at: Tile) -> Option<Value> {
        let shape = self.shape();
        match rule {
            Rule::Documents => {
                let (query, key) = (self.tables.query_documents?, self.tables.key_documents?);
                let query = self.walk.query_part(b, query, 1, at.query);
                let key = self.walk.key_part(b, key, 1, at.key);
                let query = b.broadcast(words(b, query), &shape, &[0, 2]);
                Some(b.eq(query, Along(words(b, key), [0, 3])))
            }
            Rule::Blocks(size) => {
                let table = self.tables.blocks?;
                let rows = lines(b, (table, size), at.query, self.walk.queries);
                let columns = b.transpose(rows, &[1, 0]);
                let seen = lines(b, (columns, size), at.key, self.walk.keys);
                let seen = nonzero(b, b.transpose(seen, &[1, 0]));
                Some(b.broadcast(seen, &shape, &[2, 3]))
            }
            Rule::Mask(_) => {
                let mask = self.walk.tile_part(b, self.tables.mask?, at);
                Some(b.broadcast_to(nonzero(b, mask), &shape))
            }
            _ => None,
        }
    }

    /// The scores of the products ⟨q, k⟩, which may come in any shape with the same elements.
    pub(super) fn scored(&self, b: &Builder, products: Value, at: Tile) -> Scored {
        let mut score = b.mul(b.reshape(products, &self.shape()), self.terms.scale);
        let mut cap = None;
        for (place, rule) in self.terms.problem.rules().iter().enumerate() {
            if let Rule::Softcap(_) = rule {
                let bent = b.unary(Unary::Tanh, b.div(score, self.terms.cap));
                score = b.mul(bent, self.terms.cap);
                let square = b.mul(bent, bent);
                cap = Some((place, b.sub(b.splat_like(1.0, square), square)));
            } else if let Some(bias) = self.bias(b, rule, at) {
                score = b.add(score, Repeated(b.convert(bias, self.element)));
            }
        }
        Scored { score, cap }
    }

    /// The bias that a rule adds to scores, if it adds one.
    fn bias(&self, b: &Builder, rule: Rule, at: Tile) -> Option<Value> {
        match rule {
            Rule::Alibi => {
                let ahead = b.convert(b.neg(self.places(b, at).back), self.element);
                let ahead = b.broadcast(ahead, &self.shape(), &[2, 3]);
                let slopes = b.convert(self.tables.slopes?, self.element);
                Some(b.mul(b.broadcast(slopes, &self.shape(), &[1]), ahead))
            }
            Rule::Bias(_) => Some(self.walk.tile_part(b, self.tables.bias?, at)),
            Rule::Relative(_) => Some(relative::biases(b, self.walk, self.tables.relative?, at)),
            _ => None,
        }
    }
}

impl Scored {
    /// Sets the cap's slope to 0 where a pair isn't seen: the slope may be NaN there.
    pub(super) fn seen(self, b: &Builder, seen: Option<Value>) -> Self {
        match (seen, self.cap) {
            (Some(seen), Some((place, slope))) => {
                let cap = Some((place, b.select(seen, slope, 0.0)));
                Self { cap, ..self }
            }
            _ => self,
        }
    }

    /// Turns gradients of scores into gradients of the input of the rules from index `from` on.
    pub(super) fn before(&self, b: &Builder, gradients: Value, from: usize) -> Value {
        match self.cap {
            Some((place, slope)) if place >= from => b.mul(gradients, slope),
            _ => gradients,
        }
    }
}

/// The pairs that a rule without a table lets be seen; `None` for other rules.
pub(in crate::custom) fn by_place(b: &Builder, rule: Rule, at: &Places) -> Option<Value> {
    let back = at.back;
    let near = |window: u32| b.lt(b.abs(back), f64::from(window));
    let before = || b.ge(back, 0.0);
    let first = |place, count: u32| b.lt(place, f64::from(count));
    Some(match rule {
        Rule::Causal => before(),
        Rule::CausalTopLeft => b.le(at.key, at.query),
        Rule::Window(window) => b.and(before(), near(window)),
        Rule::SymmetricWindow(window) => near(window),
        Rule::Prefix(count) => b.or(first(at.key, count), before()),
        Rule::Global { tokens, window } => {
            let place = b.min(at.key, b.add(at.key, back));
            b.or(near(window), first(place, tokens))
        }
        Rule::Dilated(step) => b.eq(b.rem(back, f64::from(step)), 0.0),
        _ => return None,
    })
}

/// Where all conditions hold; `None` without conditions.
pub(in crate::custom) fn all(b: &Builder, conditions: &[Value]) -> Option<Value> {
    let (first, rest) = conditions.split_first()?;
    Some(rest.iter().fold(*first, |all, one| b.and(all, *one)))
}

/// Where a table's words or booleans aren't 0.
fn nonzero(b: &Builder, x: Value) -> Value {
    match b.element(x) {
        ElementType::Pred => x,
        _ => b.ne(x, 0.0),
    }
}

/// The lines of a table for `count` places from the i32 scalar `start` on; the table has one line for every `size`
/// places.
fn lines(b: &Builder, (table, size): (Value, u32), start: Value, count: usize) -> Value {
    let all = b.shape(table)[0];
    let most = (count.div_ceil(size as usize) + 1).min(all);
    let first = b.min(b.div(start, f64::from(size)), (all - most) as f64);
    let few = part(b, table, &[(0, first, most)]);
    let place = b.iota(TensorType::new([count], S32), 0);
    let line = b.div(b.add(place, Along(start, [])), f64::from(size));
    b.take(few, b.sub(line, Along(first, [])))
}

impl Scores<'_> {
    /// `x` of a tile's pairs, \[B, Hq, queries, keys\], times 0 or 1 / (1 − p) as [`moebius_ops::attention::Dropout`]
    /// defines it; unchanged without dropout.
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
