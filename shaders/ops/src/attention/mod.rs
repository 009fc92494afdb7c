//! Attention of queries to keys under composable score rules.
//!
//! For each sequence b, query head h and its key head g = h / (Hq / Hkv),
//! - s_ij = rules(scale · ⟨q_i, k_j⟩), over the keys j that every rule lets query i see;
//! - lse_i = ln(Σ_j exp(s_ij) \[+ exp(sink_h)\]), p_ij = exp(s_ij − lse_i), o_i = Σ_j p_ij · v_j;
//! - backward, with Δ_i = ⟨do_i, o_i⟩ − dlse_i: ds_ij = p_ij · (⟨do_i, v_j⟩ − Δ_i), times the slope of the rules;
//!   dq_i = scale · Σ_j ds_ij · k_j, dk_j = scale · Σ_(h of g) Σ_i ds_ij · q_i, dv_j = Σ_(h of g) Σ_i p_ij · do_i,
//!   dsink_h = −Σ_(b, i) exp(sink_h − lse_i) · Δ_i.
//!
//! Shapes: q \[B, Hq, Sq, D\], k \[B, Hkv, Skv, D\], v \[B, Hkv, Skv, Dv\], o \[B, Hq, Sq, Dv\] of the element type,
//! lse f32 \[B, Hq, Sq\]; what rules read is in [`Rule`]'s table. A query that sees no key has o = 0, no gradient, and
//! lse = `f32::MIN` unless there are sinks: results for parts of the keys can then be merged by their lse without NaN.
//! Values of keys that a query doesn't see, NaN included, don't reach its output.
//!
//! A dropout multiplies weights after the softmax by w_ij (see [`Dropout`]): o_i = Σ_j w_ij · p_ij · v_j, while lse ignores the
//! dropout. Backward, dv_j has w_ij · p_ij in place of p_ij, and ds_ij = p_ij · (w_ij · ⟨do_i, v_j⟩ − Δ_i).
//!
//! Online softmax: Milakov & Gimelshein 2018; lse kept for the backward pass: Dao 2022; sinks: Xiao et al. 2023.
//!
//! With P the number of pairs (i, j) seen over all heads: 2·P·(D + Dv) FLOPs forward and 2·P·(4·D + 3·Dv) backward, where dq and
//! the pair dk, dv each recompute the scores. Bytes: each operand is read once.

mod chunks;
mod part;
mod reference;
mod rules;

pub use chunks::Chunks;
pub use reference::{Attended, Gradients, Inputs, reference, reference_backward};
pub use rules::{MAX_RULES, Pattern, Rule, Rules, Site, Tables, Tile, alibi_slopes};

use crate::element::Element;
use crate::error::{Fault, Mismatch, fits};
use crate::routing::mix;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::ops::Range;

/// The largest number of values of a head.
pub const MAX_HEAD_DIM: usize = 256;

/// The sizes of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sizes {
    /// Sequences B.
    pub batch: usize,
    /// Query heads Hq.
    pub heads: usize,
    /// Key and value heads Hkv, a divisor of Hq.
    pub kv_heads: usize,
    /// Queries per sequence Sq.
    pub queries: usize,
    /// Keys per sequence Skv.
    pub keys: usize,
    /// Values per query or key head D.
    pub head_dim: usize,
    /// Values per value head Dv.
    pub value_dim: usize,
}

/// The description of an attention: sizes, element type, scale, rules, sinks and dropout.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    sizes: Sizes,
    element: Element,
    scale: f32,
    rules: Rules,
    sinks: bool,
    dropout: bool,
}

impl Problem {
    /// An attention in f32 without rules, scaled by 1/√D.
    ///
    /// # Errors
    /// [`Mismatch`] when there are no heads, the key heads don't divide the query heads, a head has no or more than 256 values,
    /// or a tensor has 2³¹ elements or more.
    pub fn new(sizes: Sizes) -> Result<Self, Mismatch> {
        let Sizes {
            heads, kv_heads, ..
        } = sizes;
        Mismatch::positive(&[("query heads", heads), ("key heads", kv_heads)])?;
        if !heads.is_multiple_of(kv_heads) {
            let expected = format!("a divisor of the {heads} query heads");
            return Err(Mismatch::new("key heads", expected, kv_heads));
        }
        let dims = [
            ("head size", sizes.head_dim),
            ("value head size", sizes.value_dim),
        ];
        for (what, size) in dims {
            let expected = format_args!("1 to {MAX_HEAD_DIM}");
            Mismatch::unless((1..=MAX_HEAD_DIM).contains(&size), what, expected, size)?;
        }
        let tensors = [
            ("queries", [heads, sizes.queries, sizes.head_dim]),
            ("outputs", [heads, sizes.queries, sizes.value_dim]),
            ("keys", [kv_heads, sizes.keys, sizes.head_dim]),
            ("values", [kv_heads, sizes.keys, sizes.value_dim]),
        ];
        for (what, [heads, rows, dim]) in tensors {
            few_elements(what, &[sizes.batch, heads, rows, dim])?;
        }
        // Query positions among the keys are signed 32-bit numbers.
        for (what, size) in [
            ("query positions", sizes.queries),
            ("key positions", sizes.keys),
        ] {
            Mismatch::unless(size < 1 << 30, what, "fewer than 2^30", size)?;
        }
        Ok(Self {
            sizes,
            element: Element::F32,
            scale: (1.0 / (sizes.head_dim as f64).sqrt()) as f32,
            rules: Rules::default(),
            sinks: false,
            dropout: false,
        })
    }

    /// A copy whose q, k, v and o are of type `element`.
    pub fn with_element(self, element: Element) -> Self {
        Self { element, ..self }
    }

    /// A copy that multiplies ⟨q, k⟩ by `scale`.
    ///
    /// # Errors
    /// [`Mismatch`] unless `scale` is finite.
    pub fn with_scale(self, scale: f32) -> Result<Self, Mismatch> {
        Fault::Config.unless(scale.is_finite(), "scale", "a finite number", scale)?;
        Ok(Self { scale, ..self })
    }

    /// A copy under `rules`.
    ///
    /// # Errors
    /// [`Mismatch`] when `rules` don't fit the sizes.
    pub fn with_rules(self, rules: Rules) -> Result<Self, Mismatch> {
        rules.check(&self.sizes)?;
        Ok(Self { rules, ..self })
    }

    /// A copy with or without a sink for each query head.
    pub fn with_sinks(self, sinks: bool) -> Self {
        Self { sinks, ..self }
    }

    /// A copy with or without a dropout.
    pub fn with_dropout(self, dropout: bool) -> Self {
        Self { dropout, ..self }
    }

    /// A copy with other sizes.
    ///
    /// # Errors
    /// [`Mismatch`] under the conditions of [`Problem::new`] and [`Problem::with_rules`].
    pub fn with_sizes(self, sizes: Sizes) -> Result<Self, Mismatch> {
        let sizes = *Self::new(sizes)?.sizes();
        Self { sizes, ..self }.with_rules(self.rules)
    }

    /// Repeats the constructors' checks for a deserialised problem.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        let rules = Rules::new(self.rules.iter())?.with_position(self.rules.position());
        Self::new(self.sizes)?
            .with_scale(self.scale)?
            .with_rules(rules)
            .map(drop)
    }

    /// The sizes.
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// The score rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The number of query heads that share a key head.
    pub fn group(&self) -> usize {
        self.sizes.heads / self.sizes.kv_heads
    }

    /// The number of rows of q and o, which is the number of elements of lse.
    pub fn query_rows(&self) -> usize {
        self.sizes.batch * self.sizes.heads * self.sizes.queries
    }

    /// The number of rows of k and v.
    pub fn key_rows(&self) -> usize {
        self.sizes.batch * self.sizes.kv_heads * self.sizes.keys
    }

    /// The position of query `i` among the keys, as rules count it: i + Skv − Sq (queries and keys end together), or i plus the
    /// first query's position where the rules give that.
    pub fn position(&self, i: usize) -> i64 {
        self.rules.place(&self.sizes, i)
    }

    /// A range that contains every key the rules let one of `queries` see; tables can only hide more keys.
    pub fn keys_of(&self, queries: Range<usize>) -> Range<usize> {
        self.rules.keys_of(&self.sizes, queries)
    }

    /// The number of pairs of a query and a key in [`Self::keys_of`], over all heads.
    pub fn pairs(&self) -> u64 {
        let queries = 0..self.sizes.queries;
        let of_head = queries.map(|i| self.keys_of(i..i + 1).len() as u64);
        of_head.sum::<u64>() * (self.sizes.batch * self.sizes.heads) as u64
    }

    /// A range that contains every query the rules let see one of `keys`; tables can only hide more keys.
    pub fn queries_of(&self, keys: Range<usize>) -> Range<usize> {
        self.rules.queries_of(&self.sizes, keys)
    }
}

getters! { Problem:
    /// Type of q, k, v and o.
    element: Element,
    /// Factor of ⟨q, k⟩.
    scale: f32,
    /// Whether every query head has a sink.
    sinks: bool,
    /// Whether attention weights are dropped, as the operand `dropout` says.
    dropout: bool,
}

/// Checks that a tensor of shape `shape` has fewer than 2³¹ elements.
pub(crate) fn few_elements(what: &'static str, shape: &[usize]) -> Result<(), Mismatch> {
    let expected = "a tensor of at most 2^31 - 1 elements";
    Mismatch::unless(fits(shape), what, expected, format_args!("{shape:?}"))
}

/// A dropout of attention weights, as the four u32 words that kernels read.
///
/// The weight of query i and key j in sequence b and query head h is kept and multiplied by f when the hash of (b, h, i, j) is at
/// least t; every other weight is multiplied by 0. Arithmetic is modulo 2³²; mix is a 32-bit avalanche function (lowbias32, Chris
/// Wellons):
/// - r_n = mix(mix(mix(seed_n + b) + h) + i) for n = 0 and 1; the hash is mix(mix(j ⊕ r_0) + r_1);
/// - the words are seed_0, seed_1, t = ⌊p · 2³²⌋, and the bits of f = 1 / (1 − p) in f32.
///
/// A weight's factor depends only on its place and on the words, so no mask is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropout([u32; Self::WORDS]);

impl Dropout {
    /// The number of words.
    pub const WORDS: usize = 4;

    /// A dropout that drops a weight with probability `p`; seed_0 and seed_1 are the low and high half of SplitMix64 (Steele et
    /// al. 2014) of `seed`.
    ///
    /// # Errors
    /// [`Mismatch`] unless 0 ≤ p < 1.
    pub fn new(p: f64, seed: u64) -> Result<Self, Mismatch> {
        let expected = "at least 0 and less than 1";
        Fault::Config.unless((0.0..1.0).contains(&p), "dropout", expected, p)?;
        let seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let seed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let seed = (seed ^ (seed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let seed = seed ^ (seed >> 31);
        // The cast saturates when p is closer to 1 than 2⁻³².
        let threshold = (p * 2.0_f64.powi(32)) as u32;
        let factor = (1.0 / (1.0 - p)) as f32;
        Ok(Self([
            seed as u32,
            (seed >> 32) as u32,
            threshold,
            factor.to_bits(),
        ]))
    }

    /// The dropout encoded by `words`.
    pub fn of(words: [u32; Self::WORDS]) -> Self {
        Self(words)
    }

    /// The four words.
    pub fn words(&self) -> [u32; Self::WORDS] {
        self.0
    }

    /// The factors of a query's weights: for each key, 0 or f.
    pub fn row(&self, [batch, head, query]: [usize; 3]) -> impl Fn(u32) -> f32 + use<> {
        let [first, second, threshold, factor] = self.0;
        let row = |seed: u32| {
            let places = [batch, head, query];
            let add = |word: u32, place: usize| mix(word.wrapping_add(place as u32));
            places.into_iter().fold(seed, add)
        };
        let (first, second) = (row(first), row(second));
        move |key| {
            let hash = mix(mix(key ^ first).wrapping_add(second));
            f32::from_bits(if hash < threshold { 0 } else { factor })
        }
    }

    /// The factor of the weight of one query and key: 0 or f.
    pub fn factor(&self, site: Site) -> f32 {
        self.row([site.batch, site.head, site.query])(site.key as u32)
    }
}

/// A query and a key, as a [`HostRule`] sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The sequence.
    pub batch: usize,
    /// The query head.
    pub head: usize,
    /// The query i.
    pub query: usize,
    /// The position of the query: i + Skv − Sq (queries and keys end together), or i plus the first query's position if that is
    /// given.
    pub position: i64,
    /// The key j.
    pub key: usize,
}

impl Pair {
    /// The pair at `site` of `problem`.
    pub fn new(problem: &Problem, site: Site) -> Self {
        Self {
            batch: site.batch,
            head: site.head,
            query: site.query,
            position: problem.position(site.query),
            key: site.key,
        }
    }
}

/// A user-defined score rule in plain Rust. It runs after all built-in rules, on the score they produced, for the keys they let a
/// query see.
pub trait HostRule: Debug + Send + Sync {
    /// The new score for the score `s`.
    fn score(&self, s: f64, at: &Pair) -> f64;

    /// The derivative of [`Self::score`] with respect to `s`.
    fn slope(&self, s: f64, at: &Pair) -> f64;

    /// Whether the query sees the key; true by default.
    fn seen(&self, at: &Pair) -> bool {
        let _ = at;
        true
    }
}

#[cfg(test)]
mod tests;
