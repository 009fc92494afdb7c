//! Where the words of a token are.

use super::CacheFormat;
use crate::attention::MAX_HEAD_DIM;
use crate::error::{Fault, Mismatch};
use serde::{Deserialize, Serialize};

/// Tokens that lie together.
pub const BLOCK: usize = 16;

/// A pool of pages.
///
/// A page has its tokens in blocks of 16 for each key head: first the keys, for each word of a key head the 16 tokens' words
/// side by side; then the values, token by token; then, in FP8, the scales of 16 keys and of 16 values. Word w of a key
/// holds its neighbours n·w, n·w + 1 and on, n to a word, the first in the low bits; word w of a value those at w, w + W,
/// w + 2·W and on, where W words make a value: so that a kernel reads registers of tokens' keys, and of neighbouring values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Layout {
    pages: usize,
    page: usize,
    kv_heads: usize,
    head_dim: usize,
    value_dim: usize,
    format: CacheFormat,
}

getters! { Layout:
    /// Pages.
    pages: usize,
    /// Tokens of a page.
    page: usize,
    /// Key heads.
    kv_heads: usize,
    /// Elements of a key head.
    head_dim: usize,
    /// Elements of a value head.
    value_dim: usize,
    /// The type of kept values.
    format: CacheFormat,
}

impl Layout {
    /// `pages` pages of `page` tokens with `kv_heads` keys of `head_dim` and values of `value_dim` elements in `format`.
    ///
    /// # Errors
    /// [`Mismatch`] for no heads, a page that isn't some blocks of 16 tokens, heads that aren't 8, 16 and so on to 256
    /// elements, and 2³¹ words or more.
    pub fn new(
        [pages, page]: [usize; 2],
        kv_heads: usize,
        [head_dim, value_dim]: [usize; 2],
        format: CacheFormat,
    ) -> Result<Self, Mismatch> {
        let layout = Self {
            pages,
            page,
            kv_heads,
            head_dim,
            value_dim,
            format,
        };
        layout.check()
    }

    /// The layout, if it is one.
    pub(super) fn check(self) -> Result<Self, Mismatch> {
        if self.kv_heads == 0 {
            return Err(Fault::Config.error("key heads", "at least 1", 0));
        }
        if self.page == 0 || !self.page.is_multiple_of(BLOCK) {
            let expected = format!("a multiple of {BLOCK}");
            return Err(Fault::Config.error("tokens of a page", expected, self.page));
        }
        let dims = [
            ("head size of a cache", self.head_dim),
            ("value head size of a cache", self.value_dim),
        ];
        for (what, dim) in dims {
            if dim == 0 || dim > MAX_HEAD_DIM || !dim.is_multiple_of(8) {
                let expected = format!("a multiple of 8, at most {MAX_HEAD_DIM}");
                return Err(Fault::Config.error(what, expected, dim));
            }
        }
        let blocks = self.page / BLOCK;
        let sizes = [self.pages, self.kv_heads, blocks, self.block_words()];
        crate::attention::few_elements("pool of pages", &sizes)?;
        Ok(self)
    }

    /// Words of a key.
    pub fn key_words(&self) -> usize {
        self.head_dim / self.format.per_word()
    }

    /// Words of a value.
    pub fn value_words(&self) -> usize {
        self.value_dim / self.format.per_word()
    }

    /// Words of 16 tokens of a head.
    pub fn block_words(&self) -> usize {
        let scales = if self.format.scaled() { 2 } else { 0 };
        BLOCK * (self.key_words() + self.value_words() + scales)
    }

    /// Words of a page.
    pub fn page_words(&self) -> usize {
        self.kv_heads * (self.page / BLOCK) * self.block_words()
    }

    /// Words of the pool.
    pub fn words(&self) -> usize {
        self.pages * self.page_words()
    }

    /// Bytes of the pool.
    pub fn bytes(&self) -> usize {
        self.words() * 4
    }

    /// Where the block of a page begins that holds token `token` of the page.
    pub fn block(&self, page: usize, head: usize, token: usize) -> usize {
        ((page * self.kv_heads + head) * (self.page / BLOCK) + token / BLOCK) * self.block_words()
    }
}
