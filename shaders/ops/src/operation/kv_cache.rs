//! Keys and values cached in pages.

use super::operands::{Computed, Operands};
use super::{Signature, signature, signature_where};
use crate::attention::Rule;
use crate::error::Mismatch;
use crate::kv_cache::{Append, Attend, Layout, Step, reference, reference_append};
use serde::{Deserialize, Serialize};

/// An operation of [`crate::kv_cache`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum KvCache {
    /// Appends tokens to the cache.
    Append(Append),
    /// Attends over the cached tokens.
    Attend(Attend),
}

impl KvCache {
    pub(super) fn signature(&self) -> Signature {
        match self {
            Self::Append(append) => {
                let sizes = sizes(&append.layout, append.batch, append.table);
                let sizes = [&sizes[..], &[('T', append.tokens)]].concat();
                signature("cache append", append.element, &sizes)
            }
            Self::Attend(attend) => {
                let (p, s) = (attend.attention(), attend.attention().sizes());
                let relative = p.rules().relative();
                let own = [
                    ('H', s.heads),
                    ('Q', s.queries),
                    ('r', 2 * relative.unwrap_or(0) + 1),
                ];
                let sizes = sizes(attend.layout(), s.batch, attend.table());
                let sizes = [&sizes[..], &own].concat();
                signature_where(
                    "cache attention",
                    p.element(),
                    &sizes,
                    |tensor| match tensor {
                        "slopes" => p.rules().has(Rule::Alibi),
                        "relative" => relative.is_some(),
                        "sinks" => p.sinks(),
                        _ => true,
                    },
                )
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), Mismatch> {
        match self {
            Self::Append(append) => append.check(),
            Self::Attend(attend) => attend.check(),
        }
    }

    pub(super) fn compute(&self, b: &Operands<'_>) -> Result<Computed, Mismatch> {
        let step = Step {
            table: b.words("table"),
            spans: b.words("spans"),
        };
        let mut pool = b.words("pool").to_vec();
        Ok(match self {
            Self::Append(append) => {
                let [k, v] = ["k", "v"].map(|name| b.f32s(name));
                reference_append(append, &mut pool, step, [&k, &v]);
                vec![("pool", pool.into())]
            }
            Self::Attend(attend) => {
                let attended = reference(attend, &pool, step, b.floats("q"), b.tables());
                vec![("o", attended.o.into()), ("lse", attended.lse.into())]
            }
        })
    }
}

/// The sizes that both operations share.
pub(super) fn sizes(layout: &Layout, batch: usize, table: usize) -> [(char, usize); 8] {
    [
        ('B', batch),
        ('G', layout.kv_heads()),
        ('D', layout.head_dim()),
        ('E', layout.value_dim()),
        ('P', layout.pages()),
        ('w', layout.page_words()),
        ('M', table),
        ('s', 2),
    ]
}
