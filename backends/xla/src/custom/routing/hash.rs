//! The choice by hash: [`moebius_ops::routing::HashProblem`].

use super::choose::available;
use crate::custom::values::along;
use crate::stablehlo::{Builder, Reduction, Value};
use moebius_ops::routing::{HashKey, HashProblem, INFINITY, PHI, Problem, SMALLEST_NORMAL};
use moebius_pjrt::ElementType::{F32, S32, U32};
use moebius_pjrt::TensorType;

const NAN: u32 = 0x7FC0_0000;
const MAGNITUDE: u32 = 0x7FFF_FFFF;

/// Spreads every bit over all 32.
pub(in crate::custom) fn mix(b: &Builder, value: Value) -> Value {
    let folded = |x, shift| b.xor(x, b.shift_right(x, shift));
    let value = b.mul(folded(value, 16.0), f64::from(0x7FEB_352Du32));
    let value = b.mul(folded(value, 15.0), f64::from(0x846C_A68Bu32));
    folded(value, 16.0)
}

/// The bits of f32s, those that devices may change made one.
fn stable_bits(b: &Builder, x: Value) -> Value {
    let bits = b.bitcast(x, U32);
    let magnitude = b.and(bits, f64::from(MAGNITUDE));
    let tiny = b.lt(magnitude, f64::from(SMALLEST_NORMAL));
    let nan = b.gt(magnitude, f64::from(INFINITY));
    let (zero, one_nan) = (b.splat_like(0.0, bits), b.splat_like(f64::from(NAN), bits));
    b.select(nan, one_nan, b.select(tiny, zero, bits))
}

/// ui32 \[T\].
fn token_keys(b: &Builder, p: &HashProblem, x: Value) -> Value {
    match p.key() {
        HashKey::Position { sequence } => {
            let token = b.iota(TensorType::new([p.routing().tokens()], U32), 0);
            b.rem(token, sequence as f64)
        }
        HashKey::Content { .. } => {
            let bits = stable_bits(b, b.convert(x, F32));
            let column = b.mul(b.iota(b.ty(bits), 1), f64::from(PHI));
            b.sum(mix(b, b.add(bits, column)), &[1])
        }
    }
}

/// i32 \[T,E\]: how many available experts precede an expert, −1 if it isn't available itself; and how
/// many are available, i32.
fn ranks(b: &Builder, p: &Problem, mask: Option<Value>) -> (Value, Value) {
    let shape = [p.tokens(), p.experts()];
    let Some(mask) = mask else {
        let ranks = b.iota(TensorType::new(shape, S32), 1);
        return (ranks, b.scalar(p.experts() as f64, S32));
    };
    let available = b.reshape(available(b, mask, &[1, p.experts()]), &[p.experts()]);
    let one = b.convert(available, S32);
    let count = b.sum(one, &[0]);
    let rank = b.sub(b.cumulative(Reduction::Sum, one, 0), 1.0);
    (along(b, b.select(available, rank, -1.0), &shape, 1), count)
}

/// One round: the expert \[T\] whose rank is `state` mod what is left after `k` choices, E if nothing is,
/// and the ranks without it.
fn choice(b: &Builder, p: &Problem, (ranks, left): (Value, Value), state: Value) -> [Value; 2] {
    let shape = [p.tokens(), p.experts()];
    let left = b.convert(b.max(left, 1.0), U32);
    let wanted = b.rem(state, b.broadcast(left, &[p.tokens()], &[]));
    let wanted = along(b, b.convert(wanted, S32), &shape, 0);
    let here = b.eq(ranks, wanted);
    let expert = b.iota(TensorType::new(shape, S32), 1);
    let none = b.splat_like(p.experts() as f64, expert);
    let chosen = b.reduce(Reduction::Min, b.select(here, expert, none), &[1]);
    let ranks = b.select(b.gt(ranks, wanted), b.sub(ranks, 1.0), ranks);
    [chosen, b.select_number(here, -1.0, ranks)]
}

/// Indices and weights of x, and of a mask if there is one.
pub(super) fn hash(b: &Builder, p: &HashProblem, seed: u32, inputs: &[Value]) -> Vec<Value> {
    let key = token_keys(b, p, inputs[0]);
    let p = &p.routing();
    let start = mix(b, b.xor(key, mix(b, b.splat_like(f64::from(seed), key))));
    let (ranks, count) = ranks(b, p, inputs.get(1).copied());
    let ty = TensorType::new([p.tokens(), p.top_k()], S32);
    let indices = b.splat(0.0, ty.clone());
    let rounds = b.scalar(p.top_k() as f64, S32);
    let state = b.for_loop(rounds, &[start, ranks, indices], |b, k, state| {
        let (hash, ranks, indices) = (state[0], state[1], state[2]);
        let hash = mix(b, b.add(hash, f64::from(PHI)));
        let [chosen, ranks] = choice(b, p, (ranks, b.sub(count, k)), hash);
        let chosen = b.reshape(chosen, &[p.tokens(), 1]);
        let indices = b.dynamic_update_slice(indices, chosen, &[b.scalar(0.0, S32), k]);
        vec![hash, ranks, indices]
    });
    let indices = state[2];
    let found = b.lt(indices, p.experts() as f64);
    let weight = ty.with_element(F32);
    let share = b.splat(f64::from(1.0 / p.top_k() as f32), weight.clone());
    vec![indices, b.select(found, share, b.splat(0.0, weight))]
}
