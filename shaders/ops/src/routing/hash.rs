//! Hash routing: K distinct available experts per token, chosen by an integer hash, with weight 1/K each.
//!
//! With A experts available, choice k is the (h_k mod (A − k))-th of the experts not chosen yet, where h_k = mix(h_{k−1} + φ),
//! h_{−1} = mix(key ⊕ mix(seed)), mix is a 32-bit avalanche function (lowbias32, Chris Wellons) and φ = 0x9E3779B9. Arithmetic is
//! modulo 2³². The key of token t is
//! - [`HashKey::Position`]: t mod `sequence`, whatever the token holds;
//! - [`HashKey::Content`]: Σ_h mix(bits(x\[t,h\]) + φ·h), over the bits of the values as f32. Subnormals of f32 and −0 count as
//!   0, and all NaN as one, because devices may change them.
//!
//! Shapes: x \[T,H\] f32, f16 or bf16, mask u32 \[E\], indices u32 and weights f32 \[T,K\]. Slots beyond the A-th hold index E
//! and weight 0. Every step is exact, so every device agrees with the reference.
//!
//! Operations: 8 per element of x; K² per token, plus K·E with a mask. Bytes: x read, 8·T·K written.

use super::Problem;
use crate::element::Element;
use crate::error::{Fault, Mismatch};
use serde::{Deserialize, Serialize};

/// 2³² divided by the golden ratio.
pub const PHI: u32 = 0x9E37_79B9;

/// The bits of ∞ in f32; larger magnitudes are NaN.
pub const INFINITY: u32 = 0x7F80_0000;

/// The bits of 2⁻¹²⁶ in f32; smaller magnitudes are subnormals or 0.
pub const SMALLEST_NORMAL: u32 = 0x0080_0000;

/// The largest K: a unit keeps its choices in private memory, of which WebGPU guarantees 8 KiB.
const MAX_TOP_K: usize = 1024;

/// What a hash is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HashKey {
    /// The position of the token in its sequence.
    Position {
        /// Tokens per sequence; the batch holds one sequence after the other.
        sequence: usize,
    },
    /// The values of the token's row.
    Content {
        /// Values per row H.
        hidden: usize,
        /// Type of x.
        element: Element,
    },
}

getters! {
    /// A choice of experts by hash.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct HashProblem {
        /// Tokens, experts and choices per token.
        routing: Problem,
        /// What the hash is computed from.
        key: HashKey,
    }
}

impl HashProblem {
    /// A choice by `key` for the tokens of `routing`, of which only the sizes matter.
    ///
    /// # Errors
    /// [`Mismatch`] for sequences or rows of length 0, more than 2³¹ − 1 elements, or more than 1024 choices per token.
    pub fn new(routing: Problem, key: HashKey) -> Result<Self, Mismatch> {
        let (what, len) = match key {
            HashKey::Position { sequence } => ("tokens of a sequence", sequence),
            HashKey::Content { hidden, .. } => ("columns", hidden),
        };
        let (top_k, expected) = (routing.top_k, format_args!("at most {MAX_TOP_K}"));
        Fault::Config.unless(top_k <= MAX_TOP_K, "hashed top_k", expected, top_k)?;
        let right = (1..=i32::MAX as usize).contains(&len);
        Fault::Config.unless(right, what, "1 to 2^31 - 1", len)?;
        if let HashKey::Content { hidden, .. } = key {
            Mismatch::index("tokens x columns", &[routing.tokens, hidden])?;
        }
        Ok(Self { routing, key })
    }

    /// Repeats the constructor's checks for a deserialised problem.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        self.routing.check()?;
        Self::new(self.routing, self.key).map(drop)
    }

    /// The number of values of a row of x; 0 when the position is hashed.
    pub fn hidden(&self) -> usize {
        match self.key {
            HashKey::Position { .. } => 0,
            HashKey::Content { hidden, .. } => hidden,
        }
    }

    /// The type of x; f32 when the position is hashed.
    pub fn element(&self) -> Element {
        match self.key {
            HashKey::Position { .. } => Element::F32,
            HashKey::Content { element, .. } => element,
        }
    }
}

/// The 32-bit avalanche function lowbias32: every input bit affects every output bit.
#[inline]
pub fn mix(value: u32) -> u32 {
    let a = (value ^ (value >> 16)).wrapping_mul(0x7FEB_352D);
    let b = (a ^ (a >> 15)).wrapping_mul(0x846C_A68B);
    b ^ (b >> 16)
}

fn content_key_host(row: &[f32]) -> u32 {
    let of = |(h, value): (usize, &f32)| {
        let bits = match value.abs().to_bits() {
            magnitude if magnitude < SMALLEST_NORMAL => 0,
            magnitude if magnitude > INFINITY => 0x7FC0_0000,
            _ => value.to_bits(),
        };
        mix(bits.wrapping_add(PHI.wrapping_mul(h as u32)))
    };
    row.iter().enumerate().map(of).fold(0, u32::wrapping_add)
}

/// The exact oracle: indices and weights \[T,K\]; `x` \[T,H\] holds the tokens' values if content is hashed.
pub fn hash_reference(
    problem: &HashProblem,
    seed: u32,
    x: &[f32],
    mask: Option<&[bool]>,
) -> (Vec<u32>, Vec<f32>) {
    let Problem {
        tokens,
        experts,
        top_k,
        ..
    } = problem.routing;
    let available = |e: &u32| mask.is_none_or(|mask| mask[*e as usize]);
    let (mut indices, mut weights) = (Vec::new(), Vec::new());
    for token in 0..tokens {
        let key = match problem.key {
            HashKey::Position { sequence } => (token % sequence) as u32,
            HashKey::Content { hidden, .. } => content_key_host(&x[token * hidden..][..hidden]),
        };
        let mut state = mix(key ^ mix(seed));
        let mut left: Vec<u32> = (0..experts as u32).filter(available).collect();
        for _ in 0..top_k {
            if left.is_empty() {
                indices.push(experts as u32);
                weights.push(0.0);
                continue;
            }
            state = mix(state.wrapping_add(PHI));
            indices.push(left.remove(state as usize % left.len()));
            weights.push(1.0 / top_k as f32);
        }
    }
    (indices, weights)
}

#[cfg(test)]
#[path = "hash_tests.rs"]
mod tests;
