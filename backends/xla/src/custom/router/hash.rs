//! Hash routing: K distinct available experts per token, chosen by an integer hash, weight 1/K each.
//!
//! With A experts available, choice k is the (h_k mod (A − k))-th of those not chosen yet, where
//! h_k = mix(h_{k−1} + φ), h_{−1} = mix(key ⊕ mix(seed)), mix is an avalanche of 32 bits (lowbias32, Chris
//! Wellons) and φ = 0x9E3779B9. Arithmetic is modulo 2³². The key of token t is
//! - [`HashKey::Position`]: t mod `sequence`;
//! - [`HashKey::Content`]: Σ_h mix(bits(x\[t,h\]) + φ·h), bits of the value as f32, subnormals and −0 as 0
//!   and all NaN as one.

use super::choose::available;
use crate::ElementType;
use crate::custom::{Lower, along};
use crate::stablehlo::{Binary, Builder, Compare, Reduction, TensorType, Value};
use serde::{Deserialize, Serialize};

/// 2³² divided by the golden ratio.
const PHI: u32 = 0x9E37_79B9;
const INFINITY: u32 = 0x7F80_0000;
const NAN: u32 = 0x7FC0_0000;
const SMALLEST_NORMAL: u32 = 0x0080_0000;
const MAGNITUDE: u32 = 0x7FFF_FFFF;

/// What is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HashKey {
    /// The position of the token in its sequence.
    Position {
        /// Tokens of a sequence; the batch holds one after the other.
        sequence: usize,
    },
    /// The numbers of the token's row.
    Content,
}

/// A choice by hash. Operands: x, and the mask if there is one. Results: indices and weights; slots
/// beyond the A-th hold index E and weight 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hash {
    /// Tokens T.
    pub tokens: usize,
    /// Width of a token H.
    pub hidden: usize,
    /// Experts E.
    pub experts: usize,
    /// Choices of a token K.
    pub top_k: usize,
    /// What is hashed.
    pub key: HashKey,
    /// Makes one choice differ from another.
    pub seed: u32,
    /// Whether there is a mask.
    pub mask: bool,
}

/// An operation with a word as second operand.
fn with_word(b: &mut Builder, op: Binary, x: Value, word: u32) -> Value {
    b.binary_scalar(op, x, f64::from(word))
}

/// Spreads every bit over all 32.
fn mix(b: &mut Builder, value: Value) -> Value {
    let mut value = value;
    for (shift, factor) in [
        (16, Some(0x7FEB_352Du32)),
        (15, Some(0x846C_A68B)),
        (16, None),
    ] {
        let high = with_word(b, Binary::ShiftRightLogical, value, shift);
        value = b.binary(Binary::Xor, value, high);
        if let Some(factor) = factor {
            value = with_word(b, Binary::Multiply, value, factor);
        }
    }
    value
}

/// The bits of f32s, those that devices may change made one.
fn stable_bits(b: &mut Builder, x: Value) -> Value {
    let bits = b.bitcast(x, ElementType::U32);
    let magnitude = with_word(b, Binary::And, bits, MAGNITUDE);
    let tiny = b.compare_scalar(Compare::Lt, magnitude, f64::from(SMALLEST_NORMAL));
    let nan = b.compare_scalar(Compare::Gt, magnitude, f64::from(INFINITY));
    let (zero, one_nan) = (b.splat_like(0.0, bits), b.splat_like(f64::from(NAN), bits));
    let bits = b.select(tiny, zero, bits);
    b.select(nan, one_nan, bits)
}

impl Hash {
    /// ui32 \[T\].
    fn token_keys(&self, b: &mut Builder, x: Value) -> Value {
        match self.key {
            HashKey::Position { sequence } => {
                let token = b.iota(TensorType::new([self.tokens], ElementType::U32), 0);
                b.binary_scalar(Binary::Remainder, token, sequence as f64)
            }
            HashKey::Content => {
                let x = b.convert(x, ElementType::F32);
                let bits = stable_bits(b, x);
                let ty = b.ty(bits).clone();
                let column = b.iota(ty, 1);
                let column = with_word(b, Binary::Multiply, column, PHI);
                let at = b.add(bits, column);
                let mixed = mix(b, at);
                b.reduce(Reduction::Sum, mixed, &[1])
            }
        }
    }

    /// i32 \[T,E\]: how many available experts precede an expert, −1 if it isn't available itself; and how
    /// many are available, i32.
    fn ranks(&self, b: &mut Builder, mask: Option<Value>) -> (Value, Value) {
        let shape = [self.tokens, self.experts];
        let Some(mask) = mask else {
            let ranks = b.iota(TensorType::new(shape, ElementType::S32), 1);
            return (ranks, b.scalar(self.experts as f64, ElementType::S32));
        };
        let available = available(b, mask, &[1, self.experts]);
        let available = b.reshape(available, &[self.experts]);
        let one = b.convert(available, ElementType::S32);
        let count = b.reduce(Reduction::Sum, one, &[0]);
        let upto = b.cumulative(Reduction::Sum, one, 0);
        let rank = b.binary_scalar(Binary::Subtract, upto, 1.0);
        let none = b.splat_like(-1.0, rank);
        let rank = b.select(available, rank, none);
        (along(b, rank, &shape, 1), count)
    }

    /// One round: the expert \[T\] whose rank is `state` mod what is left after `k` choices, E if nothing is,
    /// and the ranks without it.
    fn choice(&self, b: &mut Builder, (ranks, left): (Value, Value), state: Value) -> [Value; 2] {
        let shape = [self.tokens, self.experts];
        let left = b.binary_scalar(Binary::Maximum, left, 1.0);
        let left = b.convert(left, ElementType::U32);
        let left = b.broadcast(left, &[self.tokens], &[]);
        let wanted = b.binary(Binary::Remainder, state, left);
        let wanted = b.convert(wanted, ElementType::S32);
        let wanted = along(b, wanted, &shape, 0);
        let here = b.compare(Compare::Eq, ranks, wanted);
        let expert = b.iota(TensorType::new(shape, ElementType::S32), 1);
        let none = b.splat_like(self.experts as f64, expert);
        let chosen = b.select(here, expert, none);
        let chosen = b.reduce(Reduction::Min, chosen, &[1]);
        let after = b.compare(Compare::Gt, ranks, wanted);
        let lower = b.binary_scalar(Binary::Subtract, ranks, 1.0);
        let ranks = b.select(after, lower, ranks);
        let gone = b.splat_like(-1.0, ranks);
        [chosen, b.select(here, gone, ranks)]
    }
}

impl Lower for Hash {
    fn name(&self) -> &'static str {
        "hash"
    }

    fn operands(&self) -> Vec<Vec<usize>> {
        let mut shapes = vec![vec![self.tokens, self.hidden]];
        shapes.extend(self.mask.then(|| vec![self.experts]));
        shapes
    }

    fn lower(&self, b: &mut Builder, inputs: &[Value]) -> Vec<Value> {
        let key = self.token_keys(b, inputs[0]);
        let seed = b.splat_like(f64::from(self.seed), key);
        let seed = mix(b, seed);
        let start = b.binary(Binary::Xor, key, seed);
        let start = mix(b, start);
        let (ranks, count) = self.ranks(b, inputs.get(1).copied());
        let ty = TensorType::new([self.tokens, self.top_k], ElementType::S32);
        let indices = b.splat(0.0, ty);
        let rounds = b.scalar(self.top_k as f64, ElementType::S32);
        let state = b.for_loop(rounds, &[start, ranks, indices], |b, k, state| {
            let (hash, ranks, indices) = (state[0], state[1], state[2]);
            let hash = with_word(b, Binary::Add, hash, PHI);
            let hash = mix(b, hash);
            let left = b.sub(count, k);
            let [chosen, ranks] = self.choice(b, (ranks, left), hash);
            let chosen = b.reshape(chosen, &[self.tokens, 1]);
            let zero = b.scalar(0.0, ElementType::S32);
            let indices = b.dynamic_update_slice(indices, chosen, &[zero, k]);
            vec![hash, ranks, indices]
        });
        let indices = state[2];
        let found = b.compare_scalar(Compare::Lt, indices, self.experts as f64);
        let weight = TensorType::new([self.tokens, self.top_k], ElementType::F32);
        let share = b.splat(f64::from(1.0 / self.top_k as f32), weight.clone());
        let zero = b.splat(0.0, weight);
        vec![indices, b.select(found, share, zero)]
    }
}
