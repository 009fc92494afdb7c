//! Caches on the host: tokens into their pages in place; an attention reads the blocks that its queries see where they lie.

mod codes;
mod paged;

use crate::ops::attention::flex::Host;
use crate::ops::host::{Operands, cast_like, float_tensor, to_f32, words};
use crate::ops::tensors::Value;
use burn::backend::Flex;
use burn::backend::tensor::{FloatTensor, IntTensor};
use codes::Codes;
use moebius_ops::attention::{Problem, Sizes};
use moebius_ops::kv_cache::{Append, Attend, BLOCK, CacheFormat, Layout};
use moebius_ops::{KvCache, Scalar};
use paged::Paged;
use rayon::prelude::*;

/// The pool, or o and its log-sum-exp.
pub(in crate::ops) fn run(operation: &KvCache, b: Operands) -> Vec<Value<Flex>> {
    match operation {
        KvCache::Append(append) => vec![Value::Word(appended(append, b))],
        KvCache::Attend(attend) => attended(attend, b),
    }
}

/// Which page of the pool holds a sequence's tokens.
struct Places {
    table: Vec<u32>,
    spans: Vec<u32>,
    pages: usize,
}

impl Places {
    fn of(b: &mut Operands, pages: usize) -> Self {
        let [table, spans] = ["table", "spans"].map(|name| words(b.word(name)));
        Self {
            table,
            spans,
            pages,
        }
    }

    /// The first position and the end of a sequence.
    fn span(&self, sequence: usize) -> [usize; 2] {
        [0, 1].map(|at| self.spans[2 * sequence + at] as usize)
    }

    /// Where the block of a token begins, if the pool has its page.
    fn block(&self, l: &Layout, [sequence, head]: [usize; 2], token: usize) -> Option<usize> {
        let row = &self.table[sequence * self.pages..][..self.pages];
        let page = *row.get(token / l.page())? as usize;
        (page < l.pages()).then(|| l.block(page, head, token % l.page()))
    }
}

fn contiguous(b: &mut Operands, name: &str) -> FloatTensor<Flex> {
    to_f32(b.float(name)).to_contiguous()
}

fn appended(append: &Append, mut b: Operands) -> IntTensor<Flex> {
    let l = &append.layout;
    let places = Places::of(&mut b, append.table);
    let [k, v] = ["k", "v"].map(|name| contiguous(&mut b, name));
    let mut pool = b.word("pool").to_contiguous();
    let all = pool.storage_mut::<i32>();
    for row in 0..append.batch * l.kv_heads() * append.tokens {
        let sequence = row / append.tokens / l.kv_heads();
        let head = row / append.tokens % l.kv_heads();
        let [start, end] = places.span(sequence);
        let token = start + row % append.tokens;
        if token >= end {
            continue;
        }
        let Some(block) = places.block(l, [sequence, head], token) else {
            continue;
        };
        let block = &mut all[block..][..l.block_words()];
        let key = &k.storage::<f32>()[row * l.head_dim()..][..l.head_dim()];
        let value = &v.storage::<f32>()[row * l.value_dim()..][..l.value_dim()];
        write(l, block, token % BLOCK, [key, value]);
    }
    pool
}

/// Writes a token's key and value into its block.
fn write(l: &Layout, block: &mut [i32], token: usize, [key, value]: [&[f32]; 2]) {
    let (format, per) = (l.format(), l.format().per_word());
    let [keys, values] = [l.key_words(), l.value_words()];
    let [key_scale, value_scale] = [key, value].map(|row| format.scale_of(row));
    for w in 0..keys {
        block[w * BLOCK + token] = word(format, key_scale, |at| key[w * per + at]);
    }
    let row = BLOCK * keys + token * values;
    for w in 0..values {
        block[row + w] = word(format, value_scale, |at| value[w + at * values]);
    }
    if format.scaled() {
        let scales = BLOCK * (keys + values) + token;
        block[scales] = key_scale.to_bits() as i32;
        block[scales + BLOCK] = value_scale.to_bits() as i32;
    }
}

/// The word of the values that `of` has at its places, by their scale.
fn word(format: CacheFormat, scale: f32, of: impl Fn(usize) -> f32) -> i32 {
    let per = format.per_word();
    let code = |at: usize| format.encode(of(at) / scale) << (32 / per * at);
    (0..per).fold(0, |word, at| word | code(at)) as i32
}

fn attended(attend: &Attend, mut b: Operands) -> Vec<Value<Flex>> {
    let (p, l) = (attend.attention(), attend.layout());
    let s = *p.sizes();
    let places = Places::of(&mut b, attend.table());
    let q = contiguous(&mut b, "q");
    let q = q.storage::<f32>();
    let pool = b.word("pool").to_contiguous();
    let pool = pool.storage::<i32>();
    let tables = ["slopes", "relative", "sinks"].map(|name| {
        let table = b
            .maybe_float(name)
            .map(|table| to_f32(table).to_contiguous());
        table.map_or_else(Vec::new, |table| table.storage::<f32>().to_vec())
    });
    let queries = Queries {
        attention: p,
        q,
        tables: &tables,
        layout: l,
        pool,
        places: &places,
        codes: &Codes::of(l.format()),
    };
    let mut o = vec![0.0; p.query_rows() * s.value_dim];
    let mut lse = vec![f32::MIN; p.query_rows()];
    let rows = s.heads * s.queries;
    let out = o.par_chunks_mut(rows * s.value_dim);
    let out = out.zip(lse.par_chunks_mut(rows)).enumerate();
    out.for_each(|(sequence, (o, lse))| queries.attend(sequence, o, lse));
    let o = float_tensor(o, &[s.batch, s.heads, s.queries, s.value_dim]);
    let lse = float_tensor(lse, &[s.batch, s.heads, s.queries]);
    let dtype = crate::ops::dtype(Scalar::Float(p.element()));
    vec![Value::Float(cast_like(o, dtype)), Value::Float(lse)]
}

/// The queries of all sequences, and what they read.
struct Queries<'a> {
    attention: &'a Problem,
    q: &'a [f32],
    /// Slopes, biases by distance and sinks; those that aren't there are empty.
    tables: &'a [Vec<f32>; 3],
    layout: &'a Layout,
    pool: &'a [i32],
    places: &'a Places,
    codes: &'a Codes,
}

impl Queries<'_> {
    /// Fills o and lse of a sequence as far as it has new tokens.
    fn attend(&self, sequence: usize, o: &mut [f32], lse: &mut [f32]) {
        let s = *self.attention.sizes();
        let [start, end] = self.places.span(sequence);
        let queries = end.saturating_sub(start).min(s.queries);
        let heads = self.q.chunks_exact(s.queries * s.head_dim);
        let heads = heads.skip(sequence * s.heads).take(s.heads);
        let own = heads.flat_map(|head| &head[..queries * s.head_dim]);
        let own: Vec<f32> = own.copied().collect();
        let problem = of_sizes(self.attention, queries, start + queries);
        let [slopes, relative, sinks] = self.tables.each_ref();
        let host = Host {
            problem: &problem,
            q: &own,
            k: &[],
            v: &[],
            slopes,
            bias: &[],
            relative,
            sinks,
            dropout: None,
            rule: None,
            query_documents: Vec::new(),
            key_documents: Vec::new(),
            blocks: Vec::new(),
            mask: Vec::new(),
        };
        let [found, logs] = host.over(&Paged {
            layout: self.layout,
            pool: self.pool,
            places: self.places,
            sequence,
            codes: self.codes,
        });
        for head in 0..s.heads {
            let (from, to, width) = (head * queries, head * s.queries, s.value_dim);
            lse[to..][..queries].copy_from_slice(&logs[from..][..queries]);
            let found = &found[from * width..][..queries * width];
            o[to * width..][..queries * width].copy_from_slice(found);
        }
    }
}

/// The attention of one sequence.
fn of_sizes(p: &Problem, queries: usize, keys: usize) -> Problem {
    let sizes = Sizes {
        batch: 1,
        queries,
        keys,
        ..*p.sizes()
    };
    let problem = p.with_sizes(sizes);
    problem.unwrap_or_else(|e| unreachable!("smaller sizes fit, too: {e}"))
}
