//! The choice by hash: [`moebius_ops::routing::HashProblem`].

use super::choose::available;
use crate::ElementType;
use crate::custom::along;
use crate::stablehlo::{Binary, Builder, Compare, Reduction, TensorType, Value};
use moebius_ops::routing::{HashKey, HashProblem, INFINITY, PHI, Problem, SMALLEST_NORMAL};

const NAN: u32 = 0x7FC0_0000;
const MAGNITUDE: u32 = 0x7FFF_FFFF;

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

/// ui32 \[T\].
fn token_keys(b: &mut Builder, p: &HashProblem, x: Value) -> Value {
    match p.key() {
        HashKey::Position { sequence } => {
            let token = b.iota(TensorType::new([p.routing().tokens()], ElementType::U32), 0);
            b.binary_scalar(Binary::Remainder, token, sequence as f64)
        }
        HashKey::Content { .. } => {
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
fn ranks(b: &mut Builder, p: &Problem, mask: Option<Value>) -> (Value, Value) {
    let shape = [p.tokens(), p.experts()];
    let Some(mask) = mask else {
        let ranks = b.iota(TensorType::new(shape, ElementType::S32), 1);
        return (ranks, b.scalar(p.experts() as f64, ElementType::S32));
    };
    let available = available(b, mask, &[1, p.experts()]);
    let available = b.reshape(available, &[p.experts()]);
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
fn choice(b: &mut Builder, p: &Problem, (ranks, left): (Value, Value), state: Value) -> [Value; 2] {
    let shape = [p.tokens(), p.experts()];
    let left = b.binary_scalar(Binary::Maximum, left, 1.0);
    let left = b.convert(left, ElementType::U32);
    let left = b.broadcast(left, &[p.tokens()], &[]);
    let wanted = b.binary(Binary::Remainder, state, left);
    let wanted = b.convert(wanted, ElementType::S32);
    let wanted = along(b, wanted, &shape, 0);
    let here = b.compare(Compare::Eq, ranks, wanted);
    let expert = b.iota(TensorType::new(shape, ElementType::S32), 1);
    let none = b.splat_like(p.experts() as f64, expert);
    let chosen = b.select(here, expert, none);
    let chosen = b.reduce(Reduction::Min, chosen, &[1]);
    let after = b.compare(Compare::Gt, ranks, wanted);
    let lower = b.binary_scalar(Binary::Subtract, ranks, 1.0);
    let ranks = b.select(after, lower, ranks);
    let gone = b.splat_like(-1.0, ranks);
    [chosen, b.select(here, gone, ranks)]
}

/// Indices and weights of x, and of a mask if there is one.
pub(super) fn hash(b: &mut Builder, p: &HashProblem, seed: u32, inputs: &[Value]) -> Vec<Value> {
    let key = token_keys(b, p, inputs[0]);
    let p = &p.routing();
    let seed = b.splat_like(f64::from(seed), key);
    let seed = mix(b, seed);
    let start = b.binary(Binary::Xor, key, seed);
    let start = mix(b, start);
    let (ranks, count) = ranks(b, p, inputs.get(1).copied());
    let ty = TensorType::new([p.tokens(), p.top_k()], ElementType::S32);
    let indices = b.splat(0.0, ty.clone());
    let rounds = b.scalar(p.top_k() as f64, ElementType::S32);
    let state = b.for_loop(rounds, &[start, ranks, indices], |b, k, state| {
        let (hash, ranks, indices) = (state[0], state[1], state[2]);
        let hash = with_word(b, Binary::Add, hash, PHI);
        let hash = mix(b, hash);
        let left = b.sub(count, k);
        let [chosen, ranks] = choice(b, p, (ranks, left), hash);
        let chosen = b.reshape(chosen, &[p.tokens(), 1]);
        let zero = b.scalar(0.0, ElementType::S32);
        let indices = b.dynamic_update_slice(indices, chosen, &[zero, k]);
        vec![hash, ranks, indices]
    });
    let indices = state[2];
    let found = b.compare_scalar(Compare::Lt, indices, p.experts() as f64);
    let weight = ty.with_element(ElementType::F32);
    let share = b.splat(f64::from(1.0 / p.top_k() as f32), weight.clone());
    let zero = b.splat(0.0, weight);
    vec![indices, b.select(found, share, zero)]
}
