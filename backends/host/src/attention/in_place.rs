//! Scores and sums over keys and values that are read where they are stored, sixteen tokens at a time.
//!
//! Sums run in the order of those in panels, so that they have the same bits. What is read for a query serves up to four of them, with one
//! decoding.
//!
//! A cache stores the tokens of a head in pieces that a processor doesn't prefetch past the end of. What is read next is therefore prefetched: values
//! while their keys are read, and the next keys while values are.

use super::panels::{Line, PANEL};
use super::scores::KEYS;
use crate::product::prefetch;
use crate::values::Words;
use crate::vector::Transpose;
use pulp::Simd;
use pulp::bytemuck::cast_slice;

/// Tokens whose keys are stored side by side.
pub(crate) const TOKENS: usize = 16;
/// Registers of sums that a query has at a time.
const SUMS: usize = 4;

/// The keys and values of neighbouring tokens, in words.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tokens<'a> {
    /// Words of kᵀ \[words of a key\]\[16\]: neighbours are in one word.
    pub(crate) keys: &'a [[u32; TOKENS]],
    /// Words of v \[16, words of a value\]: the numbers of a word are as many words apart as a value has.
    pub(crate) values: &'a [u32],
    /// What each token's key is multiplied by, and what its value; empty for nothing.
    pub(crate) scales: [&'a [f32]; 2],
}

/// Whether all keys and values are [plain](Words::are_plain).
#[inline(always)]
pub(super) fn are_plain<E: Words>(tokens: &[Tokens<'_>]) -> bool {
    tokens.iter().all(
        #[inline(always)]
        |Tokens {
             keys,
             values,
             scales,
         }| {
            E::are_plain(keys.as_flattened(), scales[0]) && E::are_plain(values, scales[1])
        },
    )
}

impl<'a> Tokens<'a> {
    /// Values v \[16, Dv\] in f32, without keys.
    pub(super) fn of_values(values: &'a [f32]) -> Self {
        Self {
            values: cast_slice(values),
            ..Self::default()
        }
    }
}

/// The scores of a query for a block of keys.
pub(super) type Scores = [Line; KEYS / PANEL];

/// Computes the products of queries q \[rows, D\] and the keys of tokens, whose values are prefetched.
#[inline(always)]
pub(super) fn score<S: Simd, T: Transpose, E: Words>(
    vectors: (S, T),
    q: (&[f32], usize),
    tokens: &[Tokens<'_>],
    to: &mut [Scores],
) {
    let (rows, mut first) = (q.1, 0);
    while first < rows {
        let some = at_once::<S>(rows - first);
        match some {
            4 => score_rows::<S, T, E, 4>(vectors, q, tokens, (to, first)),
            3 => score_rows::<S, T, E, 3>(vectors, q, tokens, (to, first)),
            2 => score_rows::<S, T, E, 2>(vectors, q, tokens, (to, first)),
            _ => score_rows::<S, T, E, 1>(vectors, q, tokens, (to, first)),
        }
        first += some;
    }
}

/// How many queries there are registers for, of those that are left: 4, 3, 2 or 1.
#[inline(always)]
fn at_once<S: Simd>(left: usize) -> usize {
    left.min(if S::F32_LANES >= 16 { 4 } else { 2 })
}

/// Does what [`score`] does for N queries from `first` on.
#[inline(always)]
fn score_rows<S: Simd, T: Transpose, E: Words, const N: usize>(
    vectors: (S, T),
    (q, rows): (&[f32], usize),
    tokens: &[Tokens<'_>],
    (to, first): (&mut [Scores], usize),
) {
    let dim = q.len() / rows;
    let mut queries: [&[f32]; N] = [&[]; N];
    for (row, query) in queries.iter_mut().enumerate() {
        *query = &q[(first + row) * dim..][..dim];
    }
    let to = &mut to[first..][..N];
    // Several sums at a time hide how long each waits for the one before.
    let (many, few) = tokens.as_chunks::<SUMS>();
    for (at, tokens) in many.iter().enumerate() {
        score_some::<S, T, E, N, SUMS>(vectors, queries, tokens, (to, SUMS * at));
    }
    for (at, tokens) in few.iter().enumerate() {
        let at = SUMS * many.len() + at;
        score_some::<S, T, E, N, 1>(vectors, queries, &[*tokens], (to, at));
    }
}

/// Does what [`score`] does for N queries and sixteen times M tokens, whose scores are the `at`th sixteen and those after them.
#[inline(always)]
fn score_some<S: Simd, T: Transpose, E: Words, const N: usize, const M: usize>(
    vectors: (S, T),
    queries: [&[f32]; N],
    tokens: &[Tokens<'_>; M],
    (to, at): (&mut [Scores], usize),
) {
    let simd = vectors.0;
    for lane in (0..TOKENS).step_by(S::F32_LANES) {
        let mut sums = [[simd.splat_f32s(0.0); M]; N];
        let mut scales = [simd.splat_f32s(1.0); M];
        if let Some(factor) = E::SCALED {
            let factor = simd.splat_f32s(factor);
            for m in 0..M {
                let own = S::as_simd_f32s(&tokens[m].scales[0][lane..]).0[0];
                scales[m] = simd.mul_f32s(own, factor);
            }
        }
        for word in 0..tokens[0].keys.len() {
            let mut words = [simd.splat_u32s(0); M];
            for m in 0..M {
                let values = tokens[m].values.as_chunks::<TOKENS>().0;
                prefetch(values.get(word).map_or(&[], |line| line));
                words[m] = S::as_simd_u32s(&tokens[m].keys[word][lane..]).0[0];
            }
            for number in 0..E::IN_WORD {
                let mut keys = [simd.splat_f32s(0.0); M];
                for m in 0..M {
                    keys[m] = E::of_words(vectors, words[m], number);
                    if E::SCALED.is_some() {
                        keys[m] = simd.mul_f32s(keys[m], scales[m]);
                    }
                }
                for n in 0..N {
                    let q = simd.splat_f32s(queries[n][E::IN_WORD * word + number]);
                    for m in 0..M {
                        sums[n][m] = simd.mul_add_e_f32s(q, keys[m], sums[n][m]);
                    }
                }
            }
        }
        for (to, sums) in to.iter_mut().zip(&sums) {
            let to = to.as_flattened_mut().as_chunks_mut::<TOKENS>().0;
            for (to, sum) in to[at..][..M].iter_mut().zip(sums) {
                S::as_mut_simd_f32s(&mut to[lane..]).0[0] = *sum;
            }
        }
    }
}

/// Adds the values of tokens, times the probabilities p of each row, to o \[rows, Dv\], and prefetches the keys of those `ahead`.
#[inline(always)]
pub(super) fn add_values<S: Simd, T: Transpose, E: Words>(
    vectors: (S, T),
    p: &[Scores],
    [tokens, ahead]: [&[Tokens<'_>]; 2],
    o: &mut [f32],
) {
    let (width, mut first) = (o.len() / p.len(), 0);
    while first < p.len() {
        let some = at_once::<S>(p.len() - first);
        let (p, o) = (&p[first..][..some], &mut o[first * width..][..some * width]);
        let ahead = if first == 0 { ahead } else { &[] };
        match some {
            4 => add_rows::<S, T, E, 4>(vectors, p, [tokens, ahead], o),
            3 => add_rows::<S, T, E, 3>(vectors, p, [tokens, ahead], o),
            2 => add_rows::<S, T, E, 2>(vectors, p, [tokens, ahead], o),
            _ => add_rows::<S, T, E, 1>(vectors, p, [tokens, ahead], o),
        }
        first += some;
    }
}

/// Does what [`add_values`] does for N rows.
#[inline(always)]
fn add_rows<S: Simd, T: Transpose, E: Words, const N: usize>(
    vectors: (S, T),
    p: &[Scores],
    [tokens, mut ahead]: [&[Tokens<'_>]; 2],
    o: &mut [f32],
) {
    let words = o.len() / N / E::IN_WORD;
    let mut at = 0;
    while at < words {
        let whole = (words - at) / S::F32_LANES * E::IN_WORD >= SUMS;
        let (of, to) = ([tokens, ahead], (&mut *o, at));
        let registers = match const { SUMS / E::IN_WORD } {
            4 if whole => add_some::<S, T, E, N, 4>(vectors, p, of, to),
            2 if whole => add_some::<S, T, E, N, 2>(vectors, p, of, to),
            _ => add_some::<S, T, E, N, 1>(vectors, p, of, to),
        };
        at += registers * S::F32_LANES;
        ahead = &[];
    }
}

/// Does what [`add_values`] does for N rows and V registers of words from word `at` of a value on, the last of which may be cut short; returns V.
#[inline(always)]
fn add_some<S: Simd, T: Transpose, E: Words, const N: usize, const V: usize>(
    vectors: (S, T),
    p: &[Scores],
    [tokens, ahead]: [&[Tokens<'_>]; 2],
    (o, at): (&mut [f32], usize),
) -> usize {
    let (simd, width) = (vectors.0, o.len() / N);
    let words = width / E::IN_WORD;
    let count = (words - at).min(V * S::F32_LANES);
    let mut sums = [[simd.splat_f32s(0.0); SUMS]; N];
    for (sums, o) in sums.iter_mut().zip(o.chunks_exact(width)) {
        for number in 0..E::IN_WORD {
            let o = &o[number * words + at..][..count];
            for v in 0..V {
                sums[V * number + v] = simd.partial_load_f32s(&o[v * S::F32_LANES..]);
            }
        }
    }
    for (group, tokens) in tokens.iter().enumerate() {
        let next = ahead.get(group).map_or(&[][..], |tokens| tokens.keys);
        let mut next = next.chunks(next.len().div_ceil(TOKENS).max(1));
        for (token, values) in tokens.values.chunks_exact(words).enumerate() {
            prefetch(next.next().unwrap_or_default());
            let scale = || tokens.scales[1][token];
            let values = decoded::<S, T, E, V>(vectors, &values[at..][..count], scale);
            for n in 0..N {
                let p = p[n].as_flattened()[TOKENS * group + token];
                // A probability of 0 is skipped, because 0 times a NaN would not be 0.
                if p == 0.0 {
                    continue;
                }
                let p = simd.splat_f32s(p);
                for i in 0..V * E::IN_WORD {
                    sums[n][i] = simd.mul_add_e_f32s(p, values[i], sums[n][i]);
                }
            }
        }
    }
    for (sums, o) in sums.iter().zip(o.chunks_exact_mut(width)) {
        for number in 0..E::IN_WORD {
            let o = &mut o[number * words + at..][..count];
            for v in 0..V {
                simd.partial_store_f32s(&mut o[v * S::F32_LANES..], sums[V * number + v]);
            }
        }
    }
    V
}

/// The numbers of up to V registers of words, all of which but the last are whole: the first of every word, then the second, and so on.
#[inline(always)]
fn decoded<S: Simd, T: Transpose, E: Words, const V: usize>(
    vectors: (S, T),
    words: &[u32],
    scale: impl FnOnce() -> f32,
) -> [S::f32s; SUMS] {
    let simd = vectors.0;
    let mut values = [simd.splat_f32s(0.0); SUMS];
    for v in 0..V {
        let words = &words[v * S::U32_LANES..];
        // Instructions that load a part of a register take longer.
        let words = match S::as_simd_u32s(words).0.first() {
            Some(words) => *words,
            None => simd.partial_load_u32s(words),
        };
        for number in 0..E::IN_WORD {
            values[V * number + v] = E::of_words(vectors, words, number);
        }
    }
    if let Some(factor) = E::SCALED {
        let scale = simd.splat_f32s(scale() * factor);
        for value in &mut values[..V * E::IN_WORD] {
            *value = simd.mul_f32s(*value, scale);
        }
    }
    values
}
