//! Scores and sums over keys and values that are read where they are stored, sixteen tokens at a time.
//!
//! Sums run in the order of those in panels, so that they have the same bits.

use pulp::Simd;

/// Tokens whose keys are stored side by side.
pub(crate) const TOKENS: usize = 16;

/// The keys and values of neighbouring tokens in f32.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tokens<'a> {
    /// kᵀ \[D\]\[16\].
    pub(crate) keys: &'a [[f32; TOKENS]],
    /// v \[16, Dv\].
    pub(crate) values: &'a [f32],
}

/// Computes the products of a query and the keys of tokens.
#[inline(always)]
pub(super) fn score<S: Simd>(simd: S, q: &[f32], tokens: &[Tokens<'_>], to: &mut [[f32; TOKENS]]) {
    // Several sums at a time hide how long each waits for the one before, if there are registers for them.
    let (many, few) = tokens.as_chunks::<8>();
    let (to_many, to_few) = to.split_at_mut(tokens.len() - few.len());
    for (tokens, to) in many.iter().zip(to_many.as_chunks_mut::<8>().0) {
        if S::F32_LANES == TOKENS {
            score_some::<S, 8>(simd, q, tokens, to);
            continue;
        }
        for (tokens, to) in tokens
            .as_chunks::<4>()
            .0
            .iter()
            .zip(to.as_chunks_mut::<4>().0)
        {
            score_some::<S, 4>(simd, q, tokens, to);
        }
    }
    for (tokens, to) in few.iter().zip(to_few) {
        score_some::<S, 1>(simd, q, &[*tokens], std::array::from_mut(to));
    }
}

/// Does what [`score`] does for sixteen times N tokens.
#[inline(always)]
fn score_some<S: Simd, const N: usize>(
    simd: S,
    q: &[f32],
    tokens: &[Tokens<'_>; N],
    to: &mut [[f32; TOKENS]; N],
) {
    for first in (0..TOKENS).step_by(S::F32_LANES) {
        let mut sums = [simd.splat_f32s(0.0); N];
        for (d, q) in q.iter().enumerate() {
            let q = simd.splat_f32s(*q);
            for n in 0..N {
                let keys = S::as_simd_f32s(&tokens[n].keys[d][first..]).0[0];
                sums[n] = simd.mul_add_e_f32s(q, keys, sums[n]);
            }
        }
        for (to, sum) in to.iter_mut().zip(sums) {
            S::as_mut_simd_f32s(&mut to[first..]).0[0] = sum;
        }
    }
}

/// Adds the values of tokens, times the probabilities p, to o \[Dv\].
#[inline(always)]
pub(super) fn add_values<S: Simd>(simd: S, p: &[f32], tokens: &[Tokens<'_>], o: &mut [f32]) {
    let width = o.len();
    let mut at = 0;
    while at + 4 * S::F32_LANES <= width {
        add_some::<S, 4>(simd, p, tokens, (o, at));
        at += 4 * S::F32_LANES;
    }
    while at + S::F32_LANES <= width {
        add_some::<S, 1>(simd, p, tokens, (o, at));
        at += S::F32_LANES;
    }
    if at == width {
        return;
    }
    for (p, tokens) in p.chunks(TOKENS).zip(tokens) {
        for (p, values) in p.iter().zip(tokens.values.chunks_exact(width)) {
            if *p != 0.0 {
                add(simd, *p, &values[at..], &mut o[at..]);
            }
        }
    }
}

/// Does what [`add_values`] does for N registers of o from `at` on.
#[inline(always)]
fn add_some<S: Simd, const N: usize>(
    simd: S,
    p: &[f32],
    tokens: &[Tokens<'_>],
    (o, at): (&mut [f32], usize),
) {
    let width = o.len();
    let o = &mut o[at..][..N * S::F32_LANES];
    let mut sums = [simd.splat_f32s(0.0); N];
    sums.copy_from_slice(S::as_simd_f32s(o).0);
    for (p, tokens) in p.chunks(TOKENS).zip(tokens) {
        for (p, values) in p.iter().zip(tokens.values.chunks_exact(width)) {
            // A probability of 0 is skipped, because 0 times a NaN would not be 0.
            if *p == 0.0 {
                continue;
            }
            let p = simd.splat_f32s(*p);
            let values = &S::as_simd_f32s(&values[at..]).0[..N];
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = simd.mul_add_e_f32s(p, *value, *sum);
            }
        }
    }
    S::as_mut_simd_f32s(o).0.copy_from_slice(&sums);
}

/// Adds `factor` · `values` to `to`.
#[inline(always)]
fn add<S: Simd>(simd: S, factor: f32, values: &[f32], to: &mut [f32]) {
    let by = simd.splat_f32s(factor);
    let (values, values_rest) = S::as_simd_f32s(values);
    let (to, to_rest) = S::as_mut_simd_f32s(to);
    for (to, value) in to.iter_mut().zip(values) {
        *to = simd.mul_add_e_f32s(by, *value, *to);
    }
    if !to_rest.is_empty() {
        let value = simd.partial_load_f32s(values_rest);
        let sum = simd.partial_load_f32s(to_rest);
        simd.partial_store_f32s(to_rest, simd.mul_add_e_f32s(by, value, sum));
    }
}
