//! Keys and values that are kept from step to step in pages, and attention over them.
//!
//! - append: tokens t of sequence b become tokens start_b + t, as far as they are before end_b;
//! - attend: query i of sequence b is at position start_b + i and sees tokens before end_b that every rule lets it see, as in
//!   [`crate::attention`]; queries at positions from end_b on see none: o = 0 and lse = `f32::MIN`, sinks or not. end_b is at
//!   most start_b + Sq.
//!
//! Shapes: pool u32 \[pages, words of a page\] ([`Layout`]), k \[B, Hkv, T, D\], v \[B, Hkv, T, Dv\], q and o \[B, Hq, Sq, D or Dv\],
//! lse f32 \[B, Hq, Sq\], table u32 \[B, M\], spans u32 \[B, 2\] = (start, end). Tokens n·page and on of a sequence, `page` of them, are
//! in page table\[b, n\]; pages that the pool doesn't have are neither written nor seen. A cache of one page per sequence is
//! contiguous.
//!
//! Pages of tokens: Kwon et al. 2023. Bytes of a step: the sequence's tokens once, for all query heads of a key head.

mod format;
mod layout;
mod reference;

pub use format::CacheFormat;
pub use layout::{BLOCK, Layout};
pub use reference::{Step, reference, reference_append, stored};

use crate::attention::{self, Rule};
use crate::element::Element;
use crate::error::{Fault, Mismatch};
use serde::{Deserialize, Serialize};

/// Tokens to append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Append {
    /// Where they are kept.
    pub layout: Layout,
    /// Sequences B.
    pub batch: usize,
    /// Tokens T of a sequence, those past its end among them.
    pub tokens: usize,
    /// Pages M of a sequence in the table.
    pub table: usize,
    /// Type of k and v.
    pub element: Element,
}

impl Append {
    /// Checks the sizes.
    ///
    /// # Errors
    /// [`Mismatch`] for tensors of 2³¹ elements or more, and a layout that [`Layout::new`] doesn't make.
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
    /// `attention` over the tokens of a cache whose table has `table` pages for each sequence: its keys are table · page.
    ///
    /// # Errors
    /// [`Mismatch`] where heads or their sizes aren't the cache's, for a dropout, a position, and rules that read tables of pairs or count keys
    /// from the first query, which a cache doesn't have.
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
            if expected != got {
                return Err(Mismatch::new(
                    what,
                    format!("{expected}, as in the cache"),
                    got,
                ));
            }
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
            if pairs {
                let expected = "a rule that follows from positions, or biases by distance";
                return Err(Fault::Unsupported.error("rule over a cache", expected, rule.name()));
            }
        }
        Ok(Self {
            attention,
            layout,
            table,
        })
    }

    /// Checks what [`Attend::new`] does, of a problem that was read.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        self.attention.check()?;
        self.layout.check()?;
        Self::new(self.attention, self.layout, self.table).map(drop)
    }

    /// The attention; its keys are all that the table has room for.
    pub fn attention(&self) -> &attention::Problem {
        &self.attention
    }

    /// How tokens are kept.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Pages of a sequence in the table.
    pub fn table(&self) -> usize {
        self.table
    }
}

#[cfg(test)]
mod tests;
