//! Caches of keys and values: tokens are appended to their pages in place, and attention reads the blocks that its queries see in place.

mod codes;

use crate::attention::{Line, Operands, Source, Tokens, over};
use crate::casts::rounded;
use crate::vector::Transpose;
use codes::Codes;
use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use moebius_ops::attention::{MAX_HEAD_DIM, Problem, Sizes};
use moebius_ops::kv_cache::{Append, Attend, BLOCK, CacheFormat, Layout};
use pulp::bytemuck::cast_slice;
use rayon::prelude::*;
use std::ops::Range;

/// Appends keys \[B, Hkv, tokens, D\] and values \[B, Hkv, tokens, Dv\] to a pool of words.
pub fn append(append: &Append, places: &Places<'_>, [k, v]: [&[f32]; 2], pool: &mut [i32]) {
    let l = &append.layout;
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
        let block = &mut pool[block..][..l.block_words()];
        let key = &k[row * l.head_dim()..][..l.head_dim()];
        let value = &v[row * l.value_dim()..][..l.value_dim()];
        write(l, block, token % BLOCK, [key, value]);
    }
}

/// Writes a token's key and value into its block.
fn write(l: &Layout, block: &mut [i32], token: usize, [key, value]: [&[f32]; 2]) {
    let (format, per) = (l.format(), l.format().per_word());
    let [keys, values] = [l.key_words(), l.value_words()];
    let row = BLOCK * keys + token * values;
    // Most caches are in f32, whose values are words.
    if format == CacheFormat::F32 {
        for (to, key) in block[token..].iter_mut().step_by(BLOCK).zip(key) {
            *to = key.to_bits().cast_signed();
        }
        for (to, value) in block[row..].iter_mut().zip(value) {
            *to = value.to_bits().cast_signed();
        }
        return;
    }
    if let CacheFormat::F16 | CacheFormat::Bf16 = format {
        let mut codes = [0; MAX_HEAD_DIM];
        halves(format, key, &mut codes);
        let pairs = codes.as_chunks::<2>().0;
        for (to, pair) in block[token..].iter_mut().step_by(BLOCK).zip(&pairs[..keys]) {
            *to = both(*pair);
        }
        halves(format, value, &mut codes);
        let (low, high) = codes.split_at(values);
        for (to, (low, high)) in block[row..][..values].iter_mut().zip(low.iter().zip(high)) {
            *to = both([*low, *high]);
        }
        return;
    }
    let [key_scale, value_scale] = [key, value].map(|row| format.scale_of(row));
    for w in 0..keys {
        block[w * BLOCK + token] = word(format, key_scale, |at| key[w * per + at]);
    }
    for w in 0..values {
        block[row + w] = word(format, value_scale, |at| value[w + at * values]);
    }
    if format.scaled() {
        let scales = BLOCK * (keys + values) + token;
        block[scales] = key_scale.to_bits() as i32;
        block[scales + BLOCK] = value_scale.to_bits() as i32;
    }
}

/// The word of two codes, the first in its low bits.
fn both([low, high]: [u16; 2]) -> i32 {
    (u32::from(high) << 16 | u32::from(low)).cast_signed()
}

/// Rounds the numbers of a row to f16 or bf16.
fn halves(format: CacheFormat, row: &[f32], to: &mut [u16]) {
    let to = &mut to[..row.len()];
    if format == CacheFormat::F16 {
        let to: &mut [f16] = to.reinterpret_cast_mut();
        return to.convert_from_f32_slice(row);
    }
    for (to, value) in to.iter_mut().zip(row) {
        *to = rounded(*value).to_bits();
    }
}

/// Encodes a word: the values of `of` at its places, divided by their scale.
fn word(format: CacheFormat, scale: f32, of: impl Fn(usize) -> f32) -> i32 {
    let per = format.per_word();
    let code = |at: usize| format.encode(of(at) / scale) << (32 / per * at);
    (0..per).fold(0, |word, at| word | code(at)) as i32
}

/// The operands of an attention over a pool in f32, other than the pool; missing tables are empty.
#[derive(Clone, Copy, Debug)]
pub struct Queries<'a> {
    /// Queries \[B, Hq, Sq, D\].
    pub q: &'a [f32],
    /// Slopes of ALiBi \[Hq\].
    pub slopes: &'a [f32],
    /// Biases by distance.
    pub relative: &'a [f32],
    /// Sinks \[Hq\].
    pub sinks: &'a [f32],
}

/// Computes o \[B, Hq, Sq, Dv\] and its log-sum-exp \[B, Hq, Sq\] over a pool of words.
pub fn attend(
    attend: &Attend,
    places: &Places<'_>,
    queries: Queries<'_>,
    pool: &[i32],
) -> [Vec<f32>; 2] {
    let (p, l) = (attend.attention(), attend.layout());
    let s = *p.sizes();
    let sequences = Sequences {
        attention: p,
        queries,
        layout: l,
        pool,
        places,
        codes: &Codes::of(l.format()),
    };
    let mut o = vec![0.0; p.query_rows() * s.value_dim];
    let mut lse = vec![f32::MIN; p.query_rows()];
    let rows = s.heads * s.queries;
    let out = o.par_chunks_mut(rows * s.value_dim);
    let out = out.zip(lse.par_chunks_mut(rows)).enumerate();
    out.for_each(|(sequence, (o, lse))| sequences.attend(sequence, o, lse));
    [o, lse]
}

/// The queries of all sequences, with the operands that they share.
struct Sequences<'a> {
    attention: &'a Problem,
    queries: Queries<'a>,
    layout: &'a Layout,
    pool: &'a [i32],
    places: &'a Places<'a>,
    codes: &'a Codes,
}

impl Sequences<'_> {
    /// Fills o and lse of a sequence for its new tokens; the rest stays as it is.
    fn attend(&self, sequence: usize, o: &mut [f32], lse: &mut [f32]) {
        let s = *self.attention.sizes();
        let [start, end] = self.places.span(sequence);
        let queries = end.saturating_sub(start).min(s.queries);
        let problem = of_sizes(self.attention, queries, start + queries);
        let of_head = s.queries * s.head_dim;
        let own = &self.queries.q[sequence * s.heads * of_head..][..s.heads * of_head];
        if queries == s.queries {
            return self.attend_to(sequence, &problem, own, [o, lse]);
        }
        let new = own.chunks_exact(of_head);
        let new = new.flat_map(|head| &head[..queries * s.head_dim]);
        let new: Vec<f32> = new.copied().collect();
        let mut found = vec![0.0; problem.query_rows() * s.value_dim];
        let mut logs = vec![f32::MIN; problem.query_rows()];
        self.attend_to(sequence, &problem, &new, [&mut found, &mut logs]);
        for head in 0..s.heads {
            let (from, to, width) = (head * queries, head * s.queries, s.value_dim);
            lse[to..][..queries].copy_from_slice(&logs[from..][..queries]);
            let found = &found[from * width..][..queries * width];
            o[to * width..][..queries * width].copy_from_slice(found);
        }
    }

    /// Fills o and lse of all queries q of a sequence, which `problem` describes.
    fn attend_to(&self, sequence: usize, problem: &Problem, q: &[f32], to: [&mut [f32]; 2]) {
        let operands = Operands {
            slopes: self.queries.slopes,
            relative: self.queries.relative,
            sinks: self.queries.sinks,
            ..Operands::new(problem, [q, &[], &[]])
        };
        let paged = Paged {
            layout: self.layout,
            pool: self.pool,
            places: self.places,
            sequence,
            codes: self.codes,
        };
        over(&operands, &paged, to);
    }
}

/// Describes the attention of one sequence.
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

/// The tokens of one sequence as a source of keys and values, which are 0 where the pool doesn't have a page.
struct Paged<'a> {
    layout: &'a Layout,
    pool: &'a [i32],
    places: &'a Places<'a>,
    sequence: usize,
    codes: &'a Codes,
}

/// The parts of a block: keys, values, and the scales of both.
struct Parts<'a> {
    keys: &'a [i32],
    values: &'a [i32],
    key_scales: &'a [i32],
    value_scales: &'a [i32],
}

impl Paged<'_> {
    /// The block whose first token is `token`.
    #[inline(always)]
    fn block(&self, head: usize, token: usize) -> Option<Parts<'_>> {
        let l = self.layout;
        let at = self.places.block(l, [self.sequence, head], token)?;
        let block = &self.pool[at..][..l.block_words()];
        let (keys, block) = block.split_at(BLOCK * l.key_words());
        let (values, scales) = block.split_at(BLOCK * l.value_words());
        let (key_scales, value_scales) = scales.split_at(scales.len() / 2);
        Some(Parts {
            keys,
            values,
            key_scales,
            value_scales,
        })
    }
}

impl Source for Paged<'_> {
    #[inline(always)]
    fn keys<T: Transpose>(&self, _: T, head: usize, keys: Range<usize>, lines: &mut [Line]) {
        for (at, token) in keys.step_by(BLOCK).enumerate() {
            let lane = at * BLOCK;
            match self.block(head, token) {
                Some(of) => self.codes.keys(of.keys, of.key_scales, lines, lane),
                None => {
                    for line in &mut *lines {
                        line[lane..][..BLOCK].fill(0.0);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn values<'a>(&'a self, head: usize, keys: Range<usize>, room: &'a mut Vec<f32>) -> &'a [f32] {
        let width = self.layout.value_dim();
        let len = keys.len() * width;
        if room.len() < len {
            room.resize(len, 0.0);
        }
        let room = &mut room[..len];
        for (token, to) in keys.step_by(BLOCK).zip(room.chunks_mut(BLOCK * width)) {
            match self.block(head, token) {
                Some(of) => self.codes.values(of.values, of.value_scales, to, width),
                None => to.fill(0.0),
            }
        }
        room
    }

    fn format(&self) -> Option<CacheFormat> {
        Some(self.layout.format())
    }

    #[inline(always)]
    fn tokens(&self, head: usize, first: usize) -> Option<Tokens<'_>> {
        let of = self.block(head, first)?;
        Some(Tokens {
            keys: cast_slice(of.keys).as_chunks().0,
            values: cast_slice(of.values),
            scales: [cast_slice(of.key_scales), cast_slice(of.value_scales)],
        })
    }
}

/// The page tables of all sequences, and the range of their new tokens.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The pages of each sequence in the pool, \[sequences, pages\], as words.
    pub table: &'a [i32],
    /// The position of each sequence's first new token, and one past its last, \[sequences, 2\], as words.
    pub spans: &'a [i32],
    /// The number of pages in a row of the table.
    pub pages: usize,
}

impl Places<'_> {
    /// Returns the position of a sequence's first new token, and one past its last.
    pub(crate) fn span(&self, sequence: usize) -> [usize; 2] {
        [0, 1].map(|at| self.spans[2 * sequence + at].cast_unsigned() as usize)
    }

    /// Returns where the block of a token begins; `None` if the pool doesn't have its page.
    pub(crate) fn block(
        &self,
        l: &Layout,
        [sequence, head]: [usize; 2],
        token: usize,
    ) -> Option<usize> {
        let row = &self.table[sequence * self.pages..][..self.pages];
        let page = row.get(token / l.page())?.cast_unsigned() as usize;
        (page < l.pages()).then(|| l.block(page, head, token % l.page()))
    }
}
