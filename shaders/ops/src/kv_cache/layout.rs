//! How a kept value is stored, and where the words of a token are.

use crate::attention::MAX_HEAD_DIM;
use crate::error::{Fault, Mismatch};
use crate::fp8::{Fp8Format, Overflow, decode_host, encode_host};
use crate::scaling::{e8m0_host, e8m0_value};
use serde::{Deserialize, Serialize};

named! {
    /// The type of kept keys and values, whatever the device computes in.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum CacheFormat {
        /// f32.
        F32 = "f32",
        /// IEEE half precision.
        F16 = "f16",
        /// bfloat16.
        Bf16 = "bf16",
        /// FP8 with 4 bits of exponent, and for each token and head a scale that is a power of two: the smallest with which the
        /// largest magnitude is at most 448. A sum of products scales exactly with it.
        E4m3 = "e4m3",
    }
}

impl CacheFormat {
    /// Values in a 32-bit word.
    pub const fn per_word(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::E4m3 => 4,
        }
    }

    /// Whether tokens have a scale.
    pub const fn scaled(self) -> bool {
        matches!(self, Self::E4m3)
    }

    /// The scale of values with this largest finite magnitude.
    pub fn scale(self, amax: f32) -> f32 {
        if self.scaled() {
            e8m0_value(e8m0_host(amax, Fp8Format::E4M3, 0))
        } else {
            1.0
        }
    }

    /// The scale of a token's key or value: that of its largest finite magnitude.
    pub fn scale_of(self, row: &[f32]) -> f32 {
        if !self.scaled() {
            return 1.0;
        }
        let finite = row.iter().map(|x| x.abs()).filter(|x| x.is_finite());
        self.scale(finite.fold(0.0, f32::max))
    }

    /// What is kept of a token's key or value.
    pub fn kept(self, row: &[f32]) -> impl Iterator<Item = f32> {
        let scale = self.scale_of(row);
        row.iter()
            .map(move |x| self.decode(self.encode(x / scale), 0) * scale)
    }

    /// The code of a value that was divided by its scale.
    pub fn encode(self, value: f32) -> u32 {
        match self {
            Self::F32 => value.to_bits(),
            Self::F16 => u32::from(half::f16::from_f32(value).to_bits()),
            Self::Bf16 => u32::from(half::bf16::from_f32(value).to_bits()),
            Self::E4m3 => u32::from(encode_host(value, Fp8Format::E4M3, Overflow::Saturate)),
        }
    }

    /// The value of code `place` of a word, without its scale.
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

/// Tokens that lie together.
pub const BLOCK: usize = 16;

getters! {
    /// A pool of pages.
    ///
    /// A page has its tokens in blocks of 16 for each key head: first the keys, for each word of a key head the 16 tokens' words
    /// side by side; then the values, token by token; then, in FP8, the scales of 16 keys and of 16 values. Word w of a key
    /// holds its neighbours n·w, n·w + 1 and on, n to a word, the first in the low bits; word w of a value those at w, w + W,
    /// w + 2·W and on, where W words make a value: so that a kernel reads registers of tokens' keys, and of neighbouring values.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub struct Layout {
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
