//! The rules on a block of scores, and the choice of blocks to compute.

use crate::vector::tanh;
use moebius_ops::attention::{Dropout, HostRule, Pair, Pattern, Problem, Rule, Tables, Tile};
use pulp::Simd;
use std::ops::Range;

/// The number of queries in a block.
pub(super) const QUERIES: usize = 48;
/// The number of keys in a block. Blocks start at multiples of it for all queries, so that a block of which a query sees nothing changes no
/// bit of the query's result.
pub(super) const KEYS: usize = 128;

/// The operands of a call in f32, with tables by their names in [`moebius_ops::attention::Tables`]; missing tables are empty.
#[derive(Clone, Debug)]
pub struct Operands<'a> {
    /// Sizes and rules.
    pub problem: &'a Problem,
    /// Queries \[B, Hq, Sq, D\].
    pub q: &'a [f32],
    /// Keys \[B, Hkv, Skv, D\].
    pub k: &'a [f32],
    /// Values \[B, Hkv, Skv, Dv\].
    pub v: &'a [f32],
    /// Slopes of ALiBi \[Hq\].
    pub slopes: &'a [f32],
    /// Dense biases.
    pub bias: &'a [f32],
    /// Biases by distance.
    pub relative: &'a [f32],
    /// Sinks \[Hq\].
    pub sinks: &'a [f32],
    /// The dropout of weights.
    pub dropout: Option<Dropout>,
    /// The program's own rule.
    pub rule: Option<&'a dyn HostRule>,
    /// Documents of the queries \[B, Sq\].
    pub query_documents: Vec<u32>,
    /// Documents of the keys \[B, Skv\].
    pub key_documents: Vec<u32>,
    /// The pattern of visible blocks.
    pub blocks: Vec<u32>,
    /// The visible pairs.
    pub mask: Vec<u32>,
}

/// A block of queries of one sequence that share a key head: some queries of one head, or all queries of several heads.
#[derive(Clone)]
pub(super) struct Block {
    pub(super) batch: usize,
    pub(super) heads: Range<usize>,
    pub(super) queries: Range<usize>,
}

impl Block {
    pub(super) fn rows(&self) -> usize {
        self.heads.len() * self.queries.len()
    }

    /// Sequence, head and query of a row.
    fn site(&self, row: usize) -> [usize; 3] {
        let (head, query) = (row / self.queries.len(), row % self.queries.len());
        [
            self.batch,
            self.heads.start + head,
            self.queries.start + query,
        ]
    }
}

impl<'a> Operands<'a> {
    /// Operands with q, k and v, and without tables.
    pub fn new(problem: &'a Problem, [q, k, v]: [&'a [f32]; 3]) -> Self {
        Self {
            problem,
            q,
            k,
            v,
            slopes: &[],
            bias: &[],
            relative: &[],
            sinks: &[],
            dropout: None,
            rule: None,
            query_documents: Vec::new(),
            key_documents: Vec::new(),
            blocks: Vec::new(),
            mask: Vec::new(),
        }
    }
}

impl Operands<'_> {
    /// The blocks of queries, in the order of their rows in q.
    pub(super) fn query_blocks(&self) -> Vec<Block> {
        let s = self.problem.sizes();
        let group = self.problem.group();
        if s.queries == 0 {
            return Vec::new();
        }
        // Heads with few queries share a block, because a block per head would load all keys again for each head.
        let together = (QUERIES / s.queries).clamp(1, group);
        let mut blocks = Vec::new();
        for batch in 0..s.batch {
            for first_of_group in (0..s.heads).step_by(group) {
                let end = first_of_group + group;
                for head in (first_of_group..end).step_by(together) {
                    let heads = head..(head + together).min(end);
                    for query in (0..s.queries).step_by(QUERIES) {
                        blocks.push(Block {
                            batch,
                            heads: heads.clone(),
                            queries: query..(query + QUERIES).min(s.queries),
                        });
                    }
                }
            }
        }
        blocks
    }

    /// Returns the blocks of keys that may be visible to these queries, each with whether all pairs are visible.
    pub(super) fn key_blocks(&self, block: &Block) -> impl Iterator<Item = (Range<usize>, bool)> {
        let keys = self.problem.keys_of(block.queries.clone());
        let first = keys.start / KEYS * KEYS;
        let blocks = (first..keys.end).step_by(KEYS);
        let tables = Tables {
            query_documents: &self.query_documents,
            key_documents: &self.key_documents,
            blocks: &self.blocks,
            ..Tables::default()
        };
        blocks.filter_map(move |first| {
            let keys = first..(first + KEYS).min(self.problem.sizes().keys);
            let rules = self.problem.rules();
            let tile = rules.tile(self.problem.sizes(), block.queries.clone(), keys.clone());
            let pairs = (block.queries.clone(), keys.clone());
            let show = || rules.tables_show(self.problem.sizes(), &tables, block.batch, pairs);
            let visited = tile != Tile::Empty && show();
            visited.then_some((keys, tile == Tile::Full && self.rule.is_none()))
        })
    }

    /// Returns the queries of a block times the scale.
    pub(super) fn scaled_queries(&self, block: &Block) -> Vec<f32> {
        self.scaled(block).collect()
    }

    /// Yields the queries of a block times the scale.
    pub(super) fn scaled(&self, block: &Block) -> impl Iterator<Item = f32> {
        let width = self.problem.sizes().head_dim;
        let first = self.first_row(block) * width;
        let q = self.q[first..][..block.rows() * width].iter();
        let scale = self.problem.scale();
        q.map(move |q| q * scale)
    }

    /// The index of a block's first row in \[B, Hq, Sq\].
    pub(super) fn first_row(&self, block: &Block) -> usize {
        let s = self.problem.sizes();
        (block.batch * s.heads + block.heads.start) * s.queries + block.queries.start
    }

    /// Whether a cap is at `place` or later in the order of rules.
    pub(super) fn capped_from(&self, place: usize) -> bool {
        let mut later = self.problem.rules().iter().skip(place);
        later.any(|rule| matches!(rule, Rule::Softcap(_)))
    }

    /// The index in a dense table of the pair of a query and the key `key`.
    pub(super) fn dense(&self, pattern: Pattern, [b, h, i]: [usize; 3], key: usize) -> usize {
        let [batches, heads, queries, keys] = pattern.shape(self.problem.sizes());
        let (b, h) = (b.min(batches - 1), h.min(heads - 1));
        ((b * heads + h) * queries + i) * keys + key
    }

    /// Applies the rules to the scores of row `row` of a block and `keys`: −∞ where a key is hidden, and past the last key. Writes the
    /// slopes of a cap to `slopes`, and those of the program's own rule to `own`. Rules that hide keys are skipped if all keys are visible.
    #[inline(always)]
    pub(super) fn apply<S: Simd>(
        &self,
        simd: S,
        (block, row): (&Block, usize),
        (keys, full): (&Range<usize>, bool),
        scores: &mut [f32],
        [slopes, own]: [&mut [f32]; 2],
    ) {
        let site = block.site(row);
        for rule in self.problem.rules().iter() {
            match rule {
                Rule::Softcap(cap) => softcap(simd, cap, scores, slopes),
                Rule::Alibi | Rule::Bias(_) | Rule::Relative(_) => {
                    self.add(rule, site, keys, scores);
                }
                _ => {}
            }
        }
        if let Some(rule) = self.rule {
            let mut own = own.iter_mut();
            for (at, score) in self.pairs(site, keys).zip(scores.iter_mut()) {
                let s = f64::from(*score);
                *score = rule.score(s, &at) as f32;
                // A forward pass passes an empty slice, because it needs no slopes.
                if let Some(slope) = own.next() {
                    *slope = rule.slope(s, &at) as f32;
                }
            }
        }
        let (seen, beyond) = scores.split_at_mut(keys.len());
        beyond.fill(f32::NEG_INFINITY);
        if full {
            return;
        }
        for rule in self.problem.rules().iter() {
            self.hide(rule, site, keys, seen);
        }
        if let Some(rule) = self.rule {
            for (at, score) in self.pairs(site, keys).zip(seen) {
                if !rule.seen(&at) {
                    *score = f32::NEG_INFINITY;
                }
            }
        }
    }

    /// Returns the pairs of a row and keys in the form that the program's own rule takes.
    fn pairs(
        &self,
        [batch, head, query]: [usize; 3],
        keys: &Range<usize>,
    ) -> impl Iterator<Item = Pair> + use<> {
        let position = self.problem.position(query);
        keys.clone().map(move |key| Pair {
            batch,
            head,
            query,
            position,
            key,
        })
    }

    /// Multiplies the values of a row's pairs, from key `first` on, by the dropout factors of their weights.
    #[inline(always)]
    pub(super) fn drop(&self, (block, row): (&Block, usize), first: usize, of_pairs: &mut [f32]) {
        if let Some(dropout) = self.dropout {
            let factor = dropout.row(block.site(row));
            for (key, value) in (first as u32..).zip(of_pairs) {
                *value *= factor(key);
            }
        }
    }

    /// Adds a rule's term to the scores of a row.
    #[inline(always)]
    fn add(&self, rule: Rule, site: [usize; 3], keys: &Range<usize>, scores: &mut [f32]) {
        let [_, head, query] = site;
        // This is the distance from the query to the first key, positive if the key is ahead.
        let ahead = keys.start as i64 - self.problem.position(query);
        match rule {
            Rule::Alibi => {
                let slope = self.slopes[head];
                for (lane, score) in scores.iter_mut().enumerate() {
                    *score += slope * (ahead as i32 + lane as i32) as f32;
                }
            }
            Rule::Bias(pattern) => {
                let bias = &self.bias[self.dense(pattern, site, keys.start)..][..keys.len()];
                for (score, bias) in scores.iter_mut().zip(bias) {
                    *score += bias;
                }
            }
            Rule::Relative(reach) => {
                let reach = i64::from(reach);
                let row = &self.relative[head * (2 * reach as usize + 1)..];
                for (lane, score) in scores.iter_mut().enumerate() {
                    let at = (ahead + lane as i64).clamp(-reach, reach) + reach;
                    *score += row[at as usize];
                }
            }
            _ => {}
        }
    }

    /// Hides the keys that a rule hides from a query.
    #[inline(always)]
    fn hide(&self, rule: Rule, site: [usize; 3], keys: &Range<usize>, scores: &mut [f32]) {
        let [batch, _, query] = site;
        let s = self.problem.sizes();
        let position = self.problem.position(query);
        match rule {
            Rule::Causal => only(keys, scores, i64::MIN, position + 1),
            Rule::CausalTopLeft => only(keys, scores, i64::MIN, query as i64 + 1),
            Rule::Window(w) => only(keys, scores, position - i64::from(w) + 1, position + 1),
            Rule::SymmetricWindow(w) => {
                let w = i64::from(w);
                only(keys, scores, position - w + 1, position + w);
            }
            Rule::Prefix(n) => only(keys, scores, i64::MIN, (position + 1).max(i64::from(n))),
            Rule::Global { tokens, window } => {
                let (tokens, w) = (i64::from(tokens), i64::from(window));
                if position < tokens {
                    return;
                }
                for (key, score) in (keys.start as i64..).zip(scores) {
                    if key >= tokens && (position - key).abs() >= w {
                        *score = f32::NEG_INFINITY;
                    }
                }
            }
            Rule::Dilated(d) => {
                let d = i64::from(d);
                let mut next = (position - keys.start as i64).rem_euclid(d);
                for (lane, score) in (0..).zip(scores) {
                    if lane == next {
                        next += d
                    } else {
                        *score = f32::NEG_INFINITY
                    }
                }
            }
            Rule::Documents => {
                let own = self.query_documents[batch * s.queries + query];
                let documents = &self.key_documents[batch * s.keys..][keys.clone()];
                keep(scores, documents, |document| document == own);
            }
            Rule::Blocks(n) => {
                let n = n as usize;
                let row = &self.blocks[query / n * s.keys.div_ceil(n)..];
                for (key, score) in keys.clone().zip(scores) {
                    if row[key / n] == 0 {
                        *score = f32::NEG_INFINITY;
                    }
                }
            }
            Rule::Mask(pattern) => {
                let mask = &self.mask[self.dense(pattern, site, keys.start)..];
                keep(scores, mask, |shown| shown != 0);
            }
            Rule::Alibi | Rule::Softcap(_) | Rule::Bias(_) | Rule::Relative(_) => {}
        }
    }
}

/// Computes cap · tanh(s / cap), and its slopes.
#[inline(always)]
fn softcap<S: Simd>(simd: S, cap: f32, scores: &mut [f32], slopes: &mut [f32]) {
    let (by, one) = (simd.splat_f32s(cap), simd.splat_f32s(1.0));
    let scores = S::as_mut_simd_f32s(scores).0.iter_mut();
    // A forward pass passes an empty slice, because it needs no slopes.
    let mut slopes = S::as_mut_simd_f32s(slopes).0.iter_mut();
    for score in scores {
        let t = tanh(simd, simd.div_f32s(*score, by));
        *score = simd.mul_f32s(by, t);
        if let Some(slope) = slopes.next() {
            *slope = simd.negate_mul_add_e_f32s(t, t, one);
        }
    }
}

/// Hides the keys outside of `from..end`.
#[inline(always)]
fn only(keys: &Range<usize>, scores: &mut [f32], from: i64, end: i64) {
    let lane = |key: i64| {
        key.saturating_sub(keys.start as i64)
            .clamp(0, keys.len() as i64)
    };
    let (from, end) = (lane(from) as usize, lane(end) as usize);
    scores[..from].fill(f32::NEG_INFINITY);
    scores[end.max(from)..].fill(f32::NEG_INFINITY);
}

/// Hides the keys for whose word `seen` is false.
#[inline(always)]
fn keep(scores: &mut [f32], words: &[u32], seen: impl Fn(u32) -> bool) {
    for (score, word) in scores.iter_mut().zip(words) {
        *score = if seen(*word) {
            *score
        } else {
            f32::NEG_INFINITY
        };
    }
}
