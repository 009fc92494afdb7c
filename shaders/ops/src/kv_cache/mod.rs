//! Keys and values cached in pages from step to step, and attention over them.
//!
//! - append: the new tokens t of sequence b become tokens start_b + t of the sequence; those at end_b and beyond are ignored;
//! - attend: query i of sequence b is at position start_b + i and sees the tokens before end_b that every rule lets it see, as in
//!   [`crate::attention`]. A query at position end_b or beyond sees none: o = 0 and lse = `f32::MIN`, even with sinks. end_b is
//!   at most start_b + Sq.
//!
//! Shapes: pool u32 \[pages, words of a page\] ([`Layout`]), k \[B, Hkv, T, D\], v \[B, Hkv, T, Dv\], q and o \[B, Hq, Sq, D or
//! Dv\], lse f32 \[B, Hq, Sq\], table u32 \[B, M\], spans u32 \[B, 2\] = (start, end). Page table\[b, n\] holds the tokens n·page
//! to n·page + page − 1 of sequence b. Pages outside the pool are neither written nor seen. A cache of one page per sequence is
//! contiguous.
//!
//! Source of paging: Kwon et al. 2023. Bytes of a step: the sequence's tokens once, for all query heads of a key head.

mod layout;

pub use layout::{BLOCK, CacheFormat, Layout};

use crate::attention::{self, Attended, Inputs, Rule, Sizes, Tables};
use crate::element::Element;
use crate::error::{Fault, Mismatch};
use serde::{Deserialize, Serialize};

/// The operation that appends tokens to a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Append {
    /// The cache's layout.
    pub layout: Layout,
    /// Sequences B.
    pub batch: usize,
    /// New tokens T per sequence, including those past the sequence's end.
    pub tokens: usize,
    /// Pages M per sequence in the table.
    pub table: usize,
    /// Type of k and v.
    pub element: Element,
}

impl Append {
    /// Checks the sizes.
    ///
    /// # Errors
    /// [`Mismatch`] when a tensor has 2³¹ elements or more, or [`Layout::new`] would refuse the layout.
    pub fn check(&self) -> Result<(), Mismatch> {
        let l = self.layout.check()?;
        let dim = l.head_dim().max(l.value_dim());
        let shape = [self.batch, l.kv_heads(), self.tokens, dim];
        attention::few_elements("tokens to append", &shape)?;
        attention::few_elements("table of pages", &[self.batch, self.table])
    }
}

/// An attention over a cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attend {
    attention: attention::Problem,
    layout: Layout,
    table: usize,
}

impl Attend {
    /// `attention` over a cache whose table has `table` pages per sequence, so that its number of keys is `table` · page.
    ///
    /// # Errors
    /// [`Mismatch`] when heads or their sizes differ from the cache's, for a dropout, for a position, and for rules that a cache
    /// can't serve: those that read tables of pairs or count keys from the first query.
    pub fn new(
        attention: attention::Problem,
        layout: Layout,
        table: usize,
    ) -> Result<Self, Mismatch> {
        let s = attention.sizes();
        let pairs = [
            ("key heads", layout.kv_heads(), s.kv_heads),
            ("head size", layout.head_dim(), s.head_dim),
            ("value head size", layout.value_dim(), s.value_dim),
            ("keys", table * layout.page(), s.keys),
        ];
        for (what, expected, got) in pairs {
            let wanted = format_args!("{expected}, as in the cache");
            Mismatch::unless(expected == got, what, wanted, got)?;
        }
        let dropout = attention.dropout();
        Fault::Unsupported.unless(!dropout, "dropout over a cache", "none", "some")?;
        if let Some(first) = attention.rules().position() {
            return Err(Fault::Unsupported.error("position over a cache", "none", first));
        }
        for rule in attention.rules().iter() {
            let pairs = matches!(
                rule,
                Rule::CausalTopLeft
                    | Rule::Documents
                    | Rule::Blocks(_)
                    | Rule::Mask(_)
                    | Rule::Bias(_)
            );
            let expected = "a rule that follows from positions, or biases by distance";
            Fault::Unsupported.unless(!pairs, "rule over a cache", expected, rule.name())?;
        }
        Ok(Self {
            attention,
            layout,
            table,
        })
    }

    /// Repeats the constructor's checks for a deserialised problem.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        self.attention.check()?;
        self.layout.check()?;
        Self::new(self.attention, self.layout, self.table).map(drop)
    }

    /// The attention; its number of keys is the room of the table.
    pub fn attention(&self) -> &attention::Problem {
        &self.attention
    }

    /// The cache's layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Pages per sequence in the table.
    pub fn table(&self) -> usize {
        self.table
    }
}

/// The pages and spans of the sequences of a call.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Page numbers of each sequence \[B, M\].
    pub table: &'a [u32],
    /// Start and end of each sequence's queries or new tokens \[B, 2\].
    pub spans: &'a [u32],
}

impl Step<'_> {
    /// The position of the sequence's first new token, and one past its last.
    fn span(&self, sequence: usize) -> [usize; 2] {
        [0, 1].map(|at| self.spans[2 * sequence + at] as usize)
    }

    /// The page that holds a token, or `None` if the pool doesn't have that page.
    fn page(&self, layout: &Layout, pages: usize, sequence: usize, token: usize) -> Option<usize> {
        let row = self.table[sequence * pages..].get(..pages)?;
        let page = *row.get(token / layout.page())? as usize;
        (page < layout.pages()).then_some(page)
    }
}

/// The word and the place within it of element `at` of a token's key (or value), and the word of its scale.
fn place(layout: &Layout, block: usize, token: usize, at: usize, key: bool) -> [usize; 3] {
    let (per, token) = (layout.format().per_word(), token % BLOCK);
    let [keys, values] = [layout.key_words(), layout.value_words()];
    let scales = block + BLOCK * (keys + values);
    if key {
        [block + at / per * BLOCK + token, at % per, scales + token]
    } else {
        let row = block + BLOCK * keys + token * values;
        [row + at % values, at / values, scales + BLOCK + token]
    }
}

/// Appends k and v to the pool.
pub fn reference_append(append: &Append, pool: &mut [u32], step: Step<'_>, kv: [&[f32]; 2]) {
    let l = append.layout;
    for row in 0..append.batch * l.kv_heads() * append.tokens {
        let (sequence, head, token) = (
            row / append.tokens / l.kv_heads(),
            row / append.tokens % l.kv_heads(),
            row % append.tokens,
        );
        let [start, end] = step.span(sequence);
        let token = start + token;
        let Some(page) = step.page(&l, append.table, sequence, token) else {
            continue;
        };
        if token >= end {
            continue;
        }
        let block = l.block(page, head, token % l.page());
        for (values, dim, key) in [(kv[0], l.head_dim(), true), (kv[1], l.value_dim(), false)] {
            let values = &values[row * dim..][..dim];
            let scale = l.format().scale_of(values);
            for (at, value) in values.iter().enumerate() {
                let [word, code, own] = place(&l, block, token, at, key);
                let bits = 32 / l.format().per_word();
                let mask = (u32::MAX >> (32 - bits)) << (bits * code);
                let new = l.format().encode(value / scale) << (bits * code);
                pool[word] = (pool[word] & !mask) | new;
                if l.format().scaled() {
                    pool[own] = scale.to_bits();
                }
            }
        }
    }
}

/// The cached keys \[Hkv, tokens, D\] and values \[Hkv, tokens, Dv\] of a sequence, with `pages` entries per row of the table; 0
/// for pages outside the pool.
pub fn stored(
    layout: &Layout,
    pool: &[u32],
    (step, pages, sequence): (Step<'_>, usize, usize),
    tokens: usize,
) -> [Vec<f32>; 2] {
    [(layout.head_dim(), true), (layout.value_dim(), false)].map(|(dim, key)| {
        let mut all = vec![0.0; layout.kv_heads() * tokens * dim];
        for (row, values) in all.chunks_mut(dim).enumerate() {
            let (head, token) = (row / tokens, row % tokens);
            let Some(page) = step.page(layout, pages, sequence, token) else {
                continue;
            };
            let block = layout.block(page, head, token % layout.page());
            for (at, value) in values.iter_mut().enumerate() {
                let [word, code, scale] = place(layout, block, token, at, key);
                *value = layout.format().decode(pool[word], code);
                if layout.format().scaled() {
                    *value *= f32::from_bits(pool[scale]);
                }
            }
        }
        all
    })
}

/// The oracle, in f64: attends over each sequence by itself, with its own number of tokens. Its pages must be in the pool.
pub fn reference(
    attend: &Attend,
    pool: &[u32],
    step: Step<'_>,
    q: &[f64],
    tables: Tables<'_>,
) -> Attended {
    let (p, l) = (attend.attention(), attend.layout());
    let s = *p.sizes();
    let mut all = Attended {
        o: vec![0.0; p.query_rows() * s.value_dim],
        lse: vec![f64::from(f32::MIN); p.query_rows()],
    };
    for sequence in 0..s.batch {
        let [start, end] = step.span(sequence);
        let queries = end.saturating_sub(start).min(s.queries);
        let [k, v] = stored(l, pool, (step, attend.table(), sequence), start + queries);
        let [k, v] = [k, v].map(|x| x.into_iter().map(f64::from).collect::<Vec<_>>());
        let row = |head: usize, query: usize| (sequence * s.heads + head) * s.queries + query;
        let own = (0..s.heads).flat_map(|h| &q[row(h, 0) * s.head_dim..][..queries * s.head_dim]);
        let own: Vec<f64> = own.copied().collect();
        let sizes = Sizes {
            batch: 1,
            queries,
            keys: start + queries,
            ..s
        };
        let inputs = Inputs {
            q: &own,
            k: &k,
            v: &v,
            tables,
        };
        let own = p.with_sizes(sizes);
        let own = own.unwrap_or_else(|e| unreachable!("smaller sizes fit, too: {e}"));
        let found = attention::reference(&own, &inputs);
        for head in 0..s.heads {
            let (from, to) = (head * queries, row(head, 0));
            all.lse[to..][..queries].copy_from_slice(&found.lse[from..][..queries]);
            let width = s.value_dim;
            all.o[to * width..][..queries * width]
                .copy_from_slice(&found.o[from * width..][..queries * width]);
        }
    }
    all
}

#[cfg(test)]
mod tests;
