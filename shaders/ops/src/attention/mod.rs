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
//! lse = `f32::MIN` unless there are sinks: then parts of the keys merge by their lse without NaN.
//! Values of keys that a query doesn't see, NaN included, don't reach its output.
//!
//! A dropout multiplies weights after the softmax by w_ij ([`Dropout`] says by which): o_i = Σ_j w_ij · p_ij · v_j, while lse is that
//! without it. Backward dv_j has w_ij · p_ij in place of p_ij, and ds_ij = p_ij · (w_ij · ⟨do_i, v_j⟩ − Δ_i).
//!
//! Online softmax: Milakov & Gimelshein 2018; lse kept for the backward pass: Dao 2022; sinks: Xiao et al. 2023.
//!
//! With P = the pairs (i, j) that are seen, over all heads: FLOPs 2·P·(D + Dv) forward, and 2·P·(4·D + 3·Dv) backward, where
//! dq and the pair dk, dv compute the scores anew. Bytes: each operand once.

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

/// The largest head.
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
    /// Queries of a sequence Sq.
    pub queries: usize,
    /// Keys of a sequence Skv.
    pub keys: usize,
    /// Values of a query or key head D.
    pub head_dim: usize,
    /// Values of a value head Dv.
    pub value_dim: usize,
}

/// An attention: sizes, types, scale and rules.
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
    /// Attention in f32 without rules, scaled by 1/√D.
    ///
    /// # Errors
    /// [`Mismatch`] for no heads, key heads that don't divide the query heads, heads of no or more than 256 values, or
    /// tensors of 2³¹ elements or more.
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
        // Positions of queries among the keys are signed.
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

    /// A copy with q, k, v and o of `element`.
    pub fn with_element(self, element: Element) -> Self {
        Self { element, ..self }
    }

    /// A copy whose products ⟨q, k⟩ are multiplied by `scale`.
    ///
    /// # Errors
    /// [`Mismatch`] unless it is finite.
    pub fn with_scale(self, scale: f32) -> Result<Self, Mismatch> {
        Fault::Config.unless(scale.is_finite(), "scale", "a finite number", scale)?;
        Ok(Self { scale, ..self })
    }

    /// A copy under `rules`.
    ///
    /// # Errors
    /// [`Mismatch`] where they don't fit the sizes.
    pub fn with_rules(self, rules: Rules) -> Result<Self, Mismatch> {
        rules.check(&self.sizes)?;
        Ok(Self { rules, ..self })
    }

    /// A copy with a sink for each query head, or without.
    pub fn with_sinks(self, sinks: bool) -> Self {
        Self { sinks, ..self }
    }

    /// A copy with a dropout, or without.
    pub fn with_dropout(self, dropout: bool) -> Self {
        Self { dropout, ..self }
    }

    /// A copy of other sizes.
    ///
    /// # Errors
    /// As [`Problem::new`] and [`Problem::with_rules`].
    pub fn with_sizes(self, sizes: Sizes) -> Result<Self, Mismatch> {
        let sizes = *Self::new(sizes)?.sizes();
        Self { sizes, ..self }.with_rules(self.rules)
    }

    /// Checks what the constructors do, of a problem that was read.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        let rules = Rules::new(self.rules.iter())?.with_position(self.rules.position());
        Self::new(self.sizes)?
            .with_scale(self.scale)?
            .with_rules(rules)
            .map(drop)
    }

    /// Its sizes.
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// Its rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Query heads that share a key head.
    pub fn group(&self) -> usize {
        self.sizes.heads / self.sizes.kv_heads
    }

    /// Rows of q and o, and elements of lse.
    pub fn query_rows(&self) -> usize {
        self.sizes.batch * self.sizes.heads * self.sizes.queries
    }

    /// Rows of k and v.
    pub fn key_rows(&self) -> usize {
        self.sizes.batch * self.sizes.kv_heads * self.sizes.keys
    }

    /// What rules call the position of query `i`: the key that lies where it does when both end together, unless the rules say
    /// where the first query is.
    pub fn position(&self, i: usize) -> i64 {
        self.rules.place(&self.sizes, i)
    }

    /// A range of keys outside of which the rules let none of these queries see any, whatever their tables say.
    pub fn keys_of(&self, queries: Range<usize>) -> Range<usize> {
        self.rules.keys_of(&self.sizes, queries)
    }

    /// A range of queries outside of which none sees any of these keys, whatever the tables say.
    pub fn queries_of(&self, keys: Range<usize>) -> Range<usize> {
        self.rules.queries_of(&self.sizes, keys)
    }
}

getters! { Problem:
    /// Type of q, k, v and o.
    element: Element,
    /// What ⟨q, k⟩ is multiplied by.
    scale: f32,
    /// Whether every query head has a sink.
    sinks: bool,
    /// Whether weights are dropped; which follows from the operand of that name.
    dropout: bool,
}

/// Checks that a tensor of this shape has fewer than 2³¹ elements.
pub(crate) fn few_elements(what: &'static str, shape: &[usize]) -> Result<(), Mismatch> {
    let expected = "a tensor of at most 2^31 - 1 elements";
    Mismatch::unless(fits(shape), what, expected, format_args!("{shape:?}"))
}

/// A dropout of attention's weights, as kernels read it: u32 \[4\].
///
/// The weight of query i and key j in sequence b and query head h is kept where the hash of (b, h, i, j) isn't below t, and is then
/// multiplied by f; the others are multiplied by 0. Arithmetic is modulo 2³², mix is an avalanche of 32 bits (lowbias32,
/// Chris Wellons):
/// - r_n = mix(mix(mix(seed_n + b) + h) + i) for n = 0 and 1; the hash is mix(mix(j ⊕ r_0) + r_1);
/// - the words are seed_0, seed_1, t = ⌊p · 2³²⌋, and the bits of f = 1 / (1 − p) in f32.
///
/// So a weight's fate depends on its place and on the words alone, and no mask is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropout([u32; Self::WORDS]);

impl Dropout {
    /// How many words there are.
    pub const WORDS: usize = 4;

    /// Drops a weight with probability `p`; seed_0 and seed_1 are the halves of what SplitMix64 (Steele et al. 2014) makes of
    /// `seed`.
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
        // Saturates where p is nearer to 1 than 2⁻³².
        let threshold = (p * 2.0_f64.powi(32)) as u32;
        let factor = (1.0 / (1.0 - p)) as f32;
        Ok(Self([
            seed as u32,
            (seed >> 32) as u32,
            threshold,
            factor.to_bits(),
        ]))
    }

    /// The dropout whose words these are.
    pub fn of(words: [u32; Self::WORDS]) -> Self {
        Self(words)
    }

    /// The words.
    pub fn words(&self) -> [u32; Self::WORDS] {
        self.0
    }

    /// What the weights of a query are multiplied by: 0 or f for each key.
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

    /// What the weight of a query and a key is multiplied by.
    pub fn factor(&self, site: Site) -> f32 {
        self.row([site.batch, site.head, site.query])(site.key as u32)
    }
}

/// A pair of a query and a key, as a [`HostRule`] is told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The sequence.
    pub batch: usize,
    /// The query head.
    pub head: usize,
    /// The query i.
    pub query: usize,
    /// The query's: i + Skv − Sq, the key beside it when both end together, unless the first query's was given.
    pub position: i64,
    /// The key j.
    pub key: usize,
}

impl Pair {
    /// That of a site.
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

/// What a program's own rule computes, in plain Rust. It comes after all others: it is given what they made of a score, for
/// keys that they let a query see.
pub trait HostRule: Debug + Send + Sync {
    /// What becomes of the score `s`.
    fn score(&self, s: f64, at: &Pair) -> f64;

    /// The derivative of that by `s`.
    fn slope(&self, s: f64, at: &Pair) -> f64;

    /// Whether the query sees the key.
    fn seen(&self, at: &Pair) -> bool {
        let _ = at;
        true
    }
}

#[cfg(test)]
mod tests;
