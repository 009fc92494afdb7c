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

mod backward;
mod chunks;
mod dropout;
mod forward;
mod host_rule;
mod rules;

pub use backward::{Gradients, reference_backward};
pub use chunks::Chunks;
pub use dropout::Dropout;
pub use forward::{Attended, Inputs, reference};
pub use host_rule::{HostRule, Pair};
pub use rules::{MAX_RULES, Pattern, Rule, Rules, Site, Tables, Tile, alibi_slopes};

use crate::element::Element;
use crate::error::{Fault, Mismatch};
use serde::{Deserialize, Serialize};
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
        for (what, size) in [("query heads", heads), ("key heads", kv_heads)] {
            if size == 0 {
                return Err(Mismatch::new(what, "at least 1", size));
            }
        }
        if !heads.is_multiple_of(kv_heads) {
            let expected = format!("a divisor of the {heads} query heads");
            return Err(Mismatch::new("key heads", expected, kv_heads));
        }
        let dims = [
            ("head size", sizes.head_dim),
            ("value head size", sizes.value_dim),
        ];
        for (what, size) in dims {
            if size == 0 || size > MAX_HEAD_DIM {
                let expected = format!("1 to {MAX_HEAD_DIM}");
                return Err(Mismatch::new(what, expected, size));
            }
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
            if size >= 1 << 30 {
                return Err(Mismatch::new(what, "fewer than 2^30", size));
            }
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
        if !scale.is_finite() {
            return Err(Fault::Config.error("scale", "a finite number", scale));
        }
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

    /// Type of q, k, v and o.
    pub fn element(&self) -> Element {
        self.element
    }

    /// What ⟨q, k⟩ is multiplied by.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// Its rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Whether every query head has a sink.
    pub fn sinks(&self) -> bool {
        self.sinks
    }

    /// Whether weights are dropped; which follows from the operand of that name.
    pub fn dropout(&self) -> bool {
        self.dropout
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

/// Checks that a tensor of this shape has fewer than 2³¹ elements.
pub(crate) fn few_elements(what: &'static str, shape: &[usize]) -> Result<(), Mismatch> {
    let elements = shape.iter().try_fold(1_usize, |n, d| n.checked_mul(*d));
    match elements {
        Some(elements) if elements <= i32::MAX as usize => Ok(()),
        _ => {
            let expected = "a tensor of at most 2^31 - 1 elements";
            Err(Mismatch::new(what, expected, format!("{shape:?}")))
        }
    }
}

#[cfg(test)]
mod tests;
