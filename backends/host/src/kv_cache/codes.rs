//! Decoding of the words of a pool to values.

use crate::attention::Line;
use crate::values::Stored;
use half::{bf16, f16};
use moebius_ops::kv_cache::{BLOCK, CacheFormat};
use std::sync::LazyLock;

/// The value of each FP8 code.
static EIGHTS: LazyLock<[f32; 256]> =
    LazyLock::new(|| std::array::from_fn(|code| CacheFormat::E4m3.decode(code as u32, 0)));

/// A decoder of the words of a format; FP8 codes are looked up in a table.
pub(super) struct Codes {
    format: CacheFormat,
    eights: &'static [f32; 256],
}

/// A function that returns the N values of a word, before the scale of its token.
trait Decode<const N: usize>: Fn(u32) -> [f32; N] + Copy {}

impl<const N: usize, F: Fn(u32) -> [f32; N] + Copy> Decode<N> for F {}

impl Codes {
    pub(super) fn of(format: CacheFormat) -> Self {
        Self {
            format,
            eights: &EIGHTS,
        }
    }

    /// Decodes the keys of a block \[words of a key, 16\] into columns from `lane` on: element d of a key goes to `lines[d]`.
    #[inline(always)]
    pub(super) fn keys(&self, words: &[i32], scales: &[i32], lines: &mut [Line], lane: usize) {
        let to = (lines, lane);
        match self.format {
            CacheFormat::F32 => single_keys(words, to),
            CacheFormat::F16 => keys(words, scales, to, halves),
            CacheFormat::Bf16 => keys(words, scales, to, brains),
            CacheFormat::E4m3 => keys(words, scales, to, |word| self.quarters(word)),
        }
    }

    /// Decodes the values of some tokens \[tokens, words of a value\] into rows of `width`.
    #[inline(always)]
    pub(super) fn values(&self, words: &[i32], scales: &[i32], to: &mut [f32], width: usize) {
        let to = (to, width);
        match self.format {
            CacheFormat::F32 => {
                for (to, word) in to.0.iter_mut().zip(words) {
                    *to = f32::from_bits(*word as u32);
                }
            }
            CacheFormat::F16 => values(words, scales, to, halves),
            CacheFormat::Bf16 => values(words, scales, to, brains),
            CacheFormat::E4m3 => values(words, scales, to, |word| self.quarters(word)),
        }
    }

    #[inline(always)]
    fn quarters(&self, word: u32) -> [f32; 4] {
        word.to_le_bytes()
            .map(|code| self.eights[usize::from(code)])
    }
}

/// Copies f32 keys, whose words are their values, in whole registers. Value by value, the compiler would gather and scatter, which is ten
/// times as slow.
#[inline(always)]
fn single_keys(words: &[i32], (lines, lane): (&mut [Line], usize)) {
    for (line, words) in lines.iter_mut().zip(words.as_chunks::<BLOCK>().0) {
        let values: [f32; BLOCK] = pulp::cast(*words);
        line[lane..][..BLOCK].copy_from_slice(&values);
    }
}

#[inline(always)]
fn halves(word: u32) -> [f32; 2] {
    let [low, high] = [word as u16, (word >> 16) as u16];
    [f16::from_bits(low).f32(), f16::from_bits(high).f32()]
}

#[inline(always)]
fn brains(word: u32) -> [f32; 2] {
    let [low, high] = [word as u16, (word >> 16) as u16];
    [bf16::from_bits(low).f32(), bf16::from_bits(high).f32()]
}

/// Returns the scale of a token; 1 if the format has no scales.
#[inline(always)]
fn factor(scales: &[i32], token: usize) -> f32 {
    let bits = scales.get(token).map(|bits| *bits as u32);
    bits.map_or(1.0, f32::from_bits)
}

/// Decodes keys: a word of a key holds N neighbouring elements.
#[inline(always)]
fn keys<const N: usize>(
    words: &[i32],
    scales: &[i32],
    (lines, lane): (&mut [Line], usize),
    decode: impl Decode<N>,
) {
    let factors: [f32; BLOCK] = std::array::from_fn(|token| factor(scales, token));
    let lines = lines.as_chunks_mut::<N>().0;
    for (lines, words) in lines.iter_mut().zip(words.as_chunks::<BLOCK>().0) {
        for (place, line) in lines.iter_mut().enumerate() {
            let line = line[lane..].iter_mut().zip(words).zip(factors);
            for ((to, word), factor) in line {
                *to = decode(*word as u32)[place] * factor;
            }
        }
    }
}

/// Decodes values: a word of a value holds N elements that are a number of words apart.
#[inline(always)]
fn values<const N: usize>(
    words: &[i32],
    scales: &[i32],
    (to, width): (&mut [f32], usize),
    decode: impl Decode<N>,
) {
    let each = width / N;
    let tokens = to.chunks_exact_mut(width).zip(words.chunks_exact(each));
    for (token, (to, words)) in tokens.enumerate() {
        let factor = factor(scales, token);
        for (place, to) in to.chunks_exact_mut(each).enumerate() {
            for (to, word) in to.iter_mut().zip(words) {
                *to = decode(*word as u32)[place] * factor;
            }
        }
    }
}
