//! The storage of cached keys and values: formats, and the place of a token's words in a page.

use crate::attention::MAX_HEAD_DIM;
use crate::error::{Fault, Mismatch};
use crate::fp8::{Fp8Format, Overflow, decode_host, encode_host};
use crate::scaling::{e8m0_host, e8m0_value};
use serde::{Deserialize, Serialize};

named! {
    /// The storage format of cached keys and values, independent of the device's element type.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum CacheFormat {
        /// IEEE single precision.
        F32 = "f32",
        /// IEEE half precision.
        F16 = "f16",
        /// bfloat16.
        Bf16 = "bf16",
        /// FP8 with 4 exponent bits, and a power-of-two scale for each token and head: the smallest scale that brings the largest
        /// magnitude to at most 448. A power-of-two scale can be moved out of a sum of products exactly.
        E4m3 = "e4m3",
    }
}

impl CacheFormat {
    /// Values per 32-bit word.
    pub const fn per_word(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::E4m3 => 4,
        }
    }

    /// Whether each token has scales.
    pub const fn scaled(self) -> bool {
        matches!(self, Self::E4m3)
    }

    /// The scale of values whose largest finite magnitude is `amax`.
    pub fn scale(self, amax: f32) -> f32 {
        if self.scaled() {
            e8m0_value(e8m0_host(amax, Fp8Format::E4M3, 0))
        } else {
            1.0
        }
    }

    /// The scale of a token's key or value `row`, from its largest finite magnitude.
    pub fn scale_of(self, row: &[f32]) -> f32 {
        if !self.scaled() {
            return 1.0;
        }
        let finite = row.iter().map(|x| x.abs()).filter(|x| x.is_finite());
        self.scale(finite.fold(0.0, f32::max))
    }

    /// A token's key or value `row` after a round trip through the cache.
    pub fn kept(self, row: &[f32]) -> impl Iterator<Item = f32> {
        let scale = self.scale_of(row);
        row.iter()
            .map(move |x| self.decode(self.encode(x / scale), 0) * scale)
    }

    /// Encodes a value that was already divided by its scale.
    pub fn encode(self, value: f32) -> u32 {
        match self {
            Self::F32 => value.to_bits(),
            Self::F16 => u32::from(half::f16::from_f32(value).to_bits()),
            Self::Bf16 => u32::from(half::bf16::from_f32(value).to_bits()),
            Self::E4m3 => u32::from(encode_host(value, Fp8Format::E4M3, Overflow::Saturate)),
        }
    }

    /// Decodes code `place` of `word`, without the scale.
    pub fn decode(self, word: u32, place: usize) -> f32 {
        let code = word >> (32 / self.per_word() * place);
        match self {
            Self::F32 => f32::from_bits(code),
            Self::F16 => half::f16::from_bits(code as u16).to_f32(),
            Self::Bf16 => half::bf16::from_bits(code as u16).to_f32(),
            Self::E4m3 => decode_host(code as u8, Fp8Format::E4M3),
        }
    }
}

/// Tokens per block of a page.
pub const BLOCK: usize = 16;

getters! {
    /// The layout of a pool of pages.
    ///
    /// A page stores each key head's tokens in blocks of 16. A block holds first the keys: for each word of a key, that word of
    /// the 16 tokens, side by side. Then it holds the values, token by token, and in FP8 the scales of the 16 keys and of the 16
    /// values. With n values per word, word w of a key holds neighbours n·w, n·w + 1, …, the first in the low bits. Word w of a
    /// value of W words holds the elements w, w + W, w + 2·W, …. A vector load thus reads one word of many tokens' keys, or
    /// neighbouring elements of a value.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub struct Layout {
        /// The number of pages.
        pages: usize,
        /// Tokens per page.
        page: usize,
        /// Key heads Hkv.
        kv_heads: usize,
        /// Values per key head D.
        head_dim: usize,
        /// Values per value head Dv.
        value_dim: usize,
        /// The storage format of keys and values.
        format: CacheFormat,
    }
}

impl Layout {
    /// A pool of `pages` pages of `page` tokens, with `kv_heads` heads of `head_dim` elements per key and `value_dim` per value,
    /// in `format`.
    ///
    /// # Errors
    /// [`Mismatch`] when there are no heads, a page isn't a positive multiple of 16 tokens, the elements of a head aren't a
    /// multiple of 8 from 8 to 256, or the pool has 2³¹ words or more.
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

    /// Returns the layout if its fields are valid.
    pub(super) fn check(self) -> Result<Self, Mismatch> {
        Fault::Config.unless(self.kv_heads > 0, "key heads", "at least 1", 0)?;
        let right = self.page > 0 && self.page.is_multiple_of(BLOCK);
        let expected = format_args!("a multiple of {BLOCK}");
        Fault::Config.unless(right, "tokens of a page", expected, self.page)?;
        let dims = [
            ("head size of a cache", self.head_dim),
            ("value head size of a cache", self.value_dim),
        ];
        for (what, dim) in dims {
            let right = (1..=MAX_HEAD_DIM).contains(&dim) && dim.is_multiple_of(8);
            let expected = format_args!("a multiple of 8, at most {MAX_HEAD_DIM}");
            Fault::Config.unless(right, what, expected, dim)?;
        }
        let blocks = self.page / BLOCK;
        let sizes = [self.pages, self.kv_heads, blocks, self.block_words()];
        crate::attention::few_elements("pool of pages", &sizes)?;
        Ok(self)
    }

    /// The number of words of a key.
    pub fn key_words(&self) -> usize {
        self.head_dim / self.format.per_word()
    }

    /// The number of words of a value.
    pub fn value_words(&self) -> usize {
        self.value_dim / self.format.per_word()
    }

    /// The number of words of a block: one head's 16 tokens.
    pub fn block_words(&self) -> usize {
        let scales = if self.format.scaled() { 2 } else { 0 };
        BLOCK * (self.key_words() + self.value_words() + scales)
    }

    /// The number of words of a page.
    pub fn page_words(&self) -> usize {
        self.kv_heads * (self.page / BLOCK) * self.block_words()
    }

    /// The number of words of the pool.
    pub fn words(&self) -> usize {
        self.pages * self.page_words()
    }

    /// The number of bytes of the pool.
    pub fn bytes(&self) -> usize {
        self.words() * 4
    }

    /// The index of the first word of the block that holds token `token` of page `page` for key head `head`.
    pub fn block(&self, page: usize, head: usize, token: usize) -> usize {
        ((page * self.kv_heads + head) * (self.page / BLOCK) + token / BLOCK) * self.block_words()
    }
}
