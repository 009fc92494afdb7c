//! Keys and values in pages, and attention over them: [`moebius_ops::kv_cache`].
//!
//! Words are read and written one by one at the places that the table gives. An attention reads a sequence's tokens
//! from the first one on, and everything that depends on positions is one mask. Where a rule biases by distance, the
//! tokens are aligned so that the last key is the last query's own: then distances are those of an ordinary attention.

use super::attention::{Places, Tables, Terms, Tiling, all, by_place, forward};
use super::quantize::{e8m0_scales, element as code_element, encode, magnitude};
use super::values::{float, words};
use crate::stablehlo::{Along, Builder, Reduction, Scatter, Value};
use moebius_ops::attention::{Pattern, Problem, Rule, Rules, Sizes};
use moebius_ops::fp8::{Fp8Format, Overflow};
use moebius_ops::kv_cache::{Append, Attend, BLOCK, CacheFormat, Layout};
use moebius_ops::{KvCache, Mismatch, Operation};
use moebius_pjrt::ElementType::{self, F32, S32, U8, U32};
use moebius_pjrt::TensorType;

/// Appends the operation, whose operands were checked, and returns its results.
///
/// # Errors
/// [`Mismatch`] for an attention whose mask or aligned keys would be a tensor of 2³¹ elements or more.
pub(super) fn lower(
    b: &Builder,
    operation: &KvCache,
    inputs: &[Value],
    tiling: Tiling,
) -> Result<Vec<Value>, Mismatch> {
    Ok(match operation {
        KvCache::Append(append) => vec![appended(b, append, inputs)],
        KvCache::Attend(attend) => attended(b, attend, inputs, tiling)?,
    })
}

/// The places of tokens in the pool.
struct Tokens {
    /// Whether each token has a page in the pool, \[B, T\].
    there: Value,
    /// The number of each token's page, i32 \[B, T\].
    page: Value,
    /// Each token's place in its page, i32 \[B, T\].
    place: Value,
}

impl Tokens {
    /// The places of the tokens at positions `token`, i32 \[B, T\].
    fn new(b: &Builder, layout: &Layout, table: Value, token: Value) -> Self {
        let [batch, pages] = [0, 1].map(|dim| b.shape(table)[dim]);
        let count = b.shape(token)[1];
        let page = layout.page() as f64;
        let column = b.clamp(0.0, b.div(token, page), (pages - 1) as f64);
        let row = b.iota(TensorType::new([batch, count], S32), 0);
        let index = b.add(b.mul(row, pages as f64), column);
        let flat = b.reshape(b.bitcast(words(b, table), S32), &[batch * pages]);
        let found = b.take(flat, b.reshape(index, &[batch * count]));
        let found = b.reshape(found, &[batch, count]);
        let inside = |x, end: usize| b.and(b.ge(x, 0.0), b.lt(x, end as f64));
        let there = b.and(
            inside(token, pages * layout.page()),
            inside(found, layout.pages()),
        );
        Self {
            there,
            page: b.clamp(0.0, found, (layout.pages() - 1) as f64),
            place: b.rem(b.max(token, b.splat_like(0.0, token)), page),
        }
    }

    /// The indices of each token's words, i32 \[B, Hkv, T, `count`\]. In a block, a token's first word is at `first`,
    /// its words are `step` apart, and two neighbouring tokens are `beside` apart.
    fn words(
        &self,
        b: &Builder,
        layout: &Layout,
        [first, count, step, beside]: [usize; 4],
    ) -> Value {
        let [batch, tokens] = [0, 1].map(|dim| b.shape(self.page)[dim]);
        let ty = TensorType::new([batch, layout.kv_heads(), tokens, count], S32);
        let (blocks, words) = (layout.page() / BLOCK, layout.block_words());
        let of_head = (blocks * words) as f64;
        let of_page = layout.kv_heads() as f64 * of_head;
        let block = b.mul(b.div(self.place, BLOCK as f64), words as f64);
        let own = b.mul(b.rem(self.place, BLOCK as f64), beside as f64);
        let start = b.add(b.mul(self.page, of_page), b.add(block, own));
        let start = b.broadcast(b.add(start, first as f64), &ty.shape, &[0, 2]);
        let head = b.mul(b.iota(ty.clone(), 1), of_head);
        let word = b.mul(b.iota(ty, 3), step as f64);
        b.add(start, b.add(head, word))
    }

    /// The indices of the words of keys and of their scale, then of values and of their scale.
    fn all(&self, b: &Builder, layout: &Layout) -> [[Value; 2]; 2] {
        let [keys, values] = [layout.key_words(), layout.value_words()];
        let scales = BLOCK * (keys + values);
        [
            [
                self.words(b, layout, [0, keys, BLOCK, 1]),
                self.words(b, layout, [scales, 1, 1, 1]),
            ],
            [
                self.words(b, layout, [BLOCK * keys, values, 1, values]),
                self.words(b, layout, [scales + BLOCK, 1, 1, 1]),
            ],
        ]
    }
}

/// Packs codes \[.., n, per word\] into i32 words \[.., n\].
fn pack(b: &Builder, format: CacheFormat, x: Value) -> Value {
    let mut shape = b.shape(x);
    match format {
        CacheFormat::F32 => {
            shape.pop();
            b.bitcast(b.reshape(x, &shape), S32)
        }
        CacheFormat::F16 => b.bitcast(b.convert(x, ElementType::F16), S32),
        CacheFormat::Bf16 => b.bitcast(b.convert(x, ElementType::BF16), S32),
        CacheFormat::E4m3 => {
            let codes = encode(b, x, Fp8Format::E4M3, Overflow::Saturate);
            b.bitcast(b.bitcast(codes, U8), S32)
        }
    }
}

/// Unpacks i32 words \[.., n\] to values \[.., n, per word\].
fn unpack(b: &Builder, format: CacheFormat, x: Value) -> Value {
    let as_type = |element| b.convert(b.bitcast(x, element), F32);
    match format {
        CacheFormat::F32 => {
            let shape = [&b.shape(x)[..], &[1]].concat();
            b.reshape(b.bitcast(x, F32), &shape)
        }
        CacheFormat::F16 => as_type(ElementType::F16),
        CacheFormat::Bf16 => as_type(ElementType::BF16),
        CacheFormat::E4m3 => as_type(code_element(Fp8Format::E4M3)),
    }
}

/// `count` consecutive positions from each of `start` \[B\] on, i32 \[B, T\].
fn counted(b: &Builder, start: Value, count: usize) -> Value {
    let ty = TensorType::new([b.shape(start)[0], count], S32);
    b.add(b.iota(ty, 1), Along(start, [0]))
}

/// The first position and the end of each sequence, i32 \[B\] each.
fn spans(b: &Builder, spans: Value) -> [Value; 2] {
    let batch = b.shape(spans)[0];
    let spans = b.bitcast(words(b, spans), S32);
    [0, 1].map(|at| b.reshape(b.slice_dim(spans, 1, at..at + 1), &[batch]))
}

fn appended(b: &Builder, append: &Append, inputs: &[Value]) -> Value {
    let [k, v, pool, table, span] = [0, 1, 2, 3, 4].map(|at| inputs[at]);
    let l = &append.layout;
    let pool = b.bitcast(words(b, pool), S32);
    if append.batch * append.tokens * append.table * l.words() == 0 {
        return pool;
    }
    let [start, end] = spans(b, span);
    let token = counted(b, start, append.tokens);
    let tokens = Tokens::new(b, l, table, token);
    let there = b.and(tokens.there, b.lt(token, Along(end, [0])));
    let mut flat = b.reshape(pool, &[l.words()]);
    let format = l.format();
    for ((x, places), key) in [k, v].into_iter().zip(tokens.all(b, l)).zip([true, false]) {
        let mut x = b.convert(x, F32);
        let mut scale = None;
        if format.scaled() {
            let amax = b.reduce_keep(Reduction::Max, magnitude(b, x), &[3]);
            let byte = e8m0_scales(b, (Fp8Format::E4M3, 0), amax);
            let inverse = b.shift_left(b.sub(b.splat_like(254.0, byte), byte), 23.0);
            let inverse = b.broadcast_to(b.bitcast(inverse, F32), &b.shape(x));
            x = b.mul(x, inverse);
            scale = Some(b.bitcast(b.shift_left(byte, 23.0), S32));
        }
        let [batch, heads, count, dim] = [0, 1, 2, 3].map(|at| b.shape(x)[at]);
        let per = format.per_word();
        let codes = if key {
            b.reshape(x, &[batch, heads, count, dim / per, per])
        } else {
            let x = b.reshape(x, &[batch, heads, count, per, dim / per]);
            b.swap_dims(x, 3, 4)
        };
        flat = put(b, flat, places[0], pack(b, format, codes), there);
        if let Some(scale) = scale {
            flat = put(b, flat, places[1], scale, there);
        }
    }
    b.reshape(flat, &[l.pages(), l.page_words()])
}

/// `flat` with the words \[B, Hkv, T, n\] of tokens written at `places`, for tokens that are `there`.
fn put(b: &Builder, flat: Value, places: Value, new: Value, there: Value) -> Value {
    let (words, shape) = (b.shape(flat)[0], b.shape(places));
    let there = b.broadcast(there, &shape, &[0, 2]);
    // A scatter ignores places outside of the operand.
    let places = b.select(there, places, words as f64);
    let count = shape.iter().product();
    let scatter = Scatter {
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..Scatter::default()
    };
    let [places, new] = [places, new].map(|x| b.reshape(x, &[count]));
    b.scatter((flat, places, new), &scatter, None)
}

/// Reads keys or values from the pool, \[B, Hkv, T, D\] in f32.
fn kept(
    b: &Builder,
    layout: &Layout,
    flat: Value,
    [places, scales]: [Value; 2],
    key: bool,
) -> Value {
    let read = |places: Value| {
        let count = b.shape(places).iter().product();
        let found = b.take(flat, b.reshape(places, &[count]));
        b.reshape(found, &b.shape(places))
    };
    let values = unpack(b, layout.format(), read(places));
    let values = if key {
        values
    } else {
        b.swap_dims(values, 3, 4)
    };
    let shape = b.shape(values);
    let x = b.reshape(values, &[shape[0], shape[1], shape[2], shape[3] * shape[4]]);
    if layout.format().scaled() {
        let scale = b.bitcast(read(scales), F32);
        b.mul(x, b.broadcast_to(scale, &b.shape(x)))
    } else {
        x
    }
}

fn attended(
    b: &Builder,
    attend: &Attend,
    inputs: &[Value],
    tiling: Tiling,
) -> Result<Vec<Value>, Mismatch> {
    let (p, l) = (attend.attention(), attend.layout());
    let problem = none_seen(p)?;
    let s = *problem.sizes();
    let signature = Operation::from(KvCache::Attend(*attend)).signature();
    let named = |name: &str| {
        let place = signature.operands.iter().position(|x| x.name == name);
        place.map(|place| inputs[place])
    };
    let [q, pool, table, span] = [0, 1, 2, 3].map(|at| inputs[at]);
    let element = float(p.element());
    let [start, end] = spans(b, span);
    let mut tables = Tables {
        slopes: named("slopes"),
        relative: named("relative"),
        sinks: named("sinks"),
        ..Tables::default()
    };
    let (k, v);
    if s.batch * s.queries * attend.table() * l.words() == 0 {
        let zeros = |dim| {
            let shape = [s.batch, s.kv_heads, s.keys, dim];
            b.splat(0.0, TensorType::new(shape, F32))
        };
        (k, v) = (zeros(s.head_dim), zeros(s.value_dim));
        let pairs = [s.batch, 1, s.queries, s.keys];
        tables.mask = Some(b.splat(0.0, TensorType::new(pairs, S32)));
    } else {
        let first = if by_distance(p) {
            // The last key is the last query's own.
            b.add(start, (s.queries as f64) - (s.keys as f64))
        } else {
            b.splat_like(0.0, start)
        };
        let token = counted(b, first, s.keys);
        let tokens = Tokens::new(b, l, table, token);
        let [of_keys, of_values] = tokens.all(b, l);
        let flat = b.reshape(b.bitcast(words(b, pool), S32), &[l.words()]);
        k = kept(b, l, flat, of_keys, true);
        v = kept(b, l, flat, of_values, false);
        let at = (token, tokens.there);
        tables.mask = Some(mask(b, p, [start, end], at));
    }
    let q = b.convert(q, F32);
    let terms = Terms::new(&problem, tables);
    let [o, lse] = forward(b, &terms, [q, k, v], tiling);
    // A query past the end sees no sink either.
    let position = counted(b, start, s.queries);
    let there = b.lt(position, Along(end, [0]));
    let there = |x: Value| b.broadcast(there, &b.shape(x), &[0, 2]);
    let o = b.convert(b.select(there(o), o, 0.0), element);
    let lse = b.select(there(lse), lse, f64::from(f32::MIN));
    Ok(vec![o, lse])
}

/// Whether a rule biases scores by the distance of a key from its query.
fn by_distance(p: &Problem) -> bool {
    p.rules().has(Rule::Alibi) || p.rules().relative().is_some()
}

/// The attention in f32, with one mask in place of the rules that hide pairs.
///
/// Keys that are aligned with the last query are `queries − 1` more than the table has room for: the last row of
/// queries may lie beyond the room, and the first tokens of the sequence are keys all the same.
fn none_seen(p: &Problem) -> Result<Problem, Mismatch> {
    let s = *p.sizes();
    let mut keys = s.keys;
    if by_distance(p) {
        keys += s.queries.saturating_sub(1);
    }
    let changes = |rule: &Rule| matches!(rule, Rule::Alibi | Rule::Softcap(_) | Rule::Relative(_));
    let mask = Rule::Mask(Pattern {
        batch: true,
        heads: false,
    });
    let rules = Rules::new(p.rules().iter().filter(changes).chain([mask]))?;
    let problem = p.with_sizes(Sizes { keys, ..s })?.with_rules(rules)?;
    Ok(problem.with_element(moebius_ops::Element::F32))
}

/// The tokens that each query sees, \[B, 1, Sq, Skv\].
fn mask(
    b: &Builder,
    p: &Problem,
    [start, end]: [Value; 2],
    (token, there): (Value, Value),
) -> Value {
    let s = p.sizes();
    let keys = b.shape(token)[1];
    let shape = [s.batch, s.queries, keys];
    let query = b.broadcast(counted(b, start, s.queries), &shape, &[0, 1]);
    let key = b.broadcast(token, &shape, &[0, 2]);
    let at = Places {
        query,
        key,
        back: b.sub(query, key),
    };
    let before = b.lt(key, Along(end, [0]));
    let mut seen = vec![before, b.broadcast(there, &shape, &[0, 2])];
    seen.extend(p.rules().iter().filter_map(|rule| by_place(b, rule, &at)));
    let seen = all(b, &seen).unwrap_or(before);
    let seen = b.convert(seen, U32);
    b.reshape(b.bitcast(seen, S32), &[s.batch, 1, s.queries, keys])
}
