//! Router logits, the choice of experts, also by hash ([`HashProblem`]), and counts of choices:
//! [`moebius_ops::routing`].

mod choose;

use super::grouped_gemm::segments::{Segments, product as block_product};
use super::values::{along, words};
use crate::stablehlo::{Builder, DotDims, Reduction, Value};
use choose::available;
use moebius_ops::Routing;
use moebius_ops::routing::{
    HashKey, HashProblem, INFINITY, LoadProblem, PHI, Problem, SMALLEST_NORMAL,
};
use moebius_pjrt::ElementType::{F32, S32, U32};
use moebius_pjrt::TensorType;

/// Appends the operation and returns its results.
pub(super) fn lower(b: &Builder, operation: &Routing, inputs: &[Value]) -> Vec<Value> {
    match operation {
        Routing::Logits {
            hidden,
            backward: true,
            ..
        } => logits_backward(b, *hidden, inputs),
        Routing::Logits { problem, .. } => {
            let dims = DotDims::matmul_transposed(0);
            let operands = [inputs[0], inputs[1]];
            vec![product(b, operands, &dims, problem.experts())]
        }
        Routing::Route {
            problem,
            mask,
            bias,
        } => choose::route(b, problem, (*mask, *bias), inputs),
        Routing::RouteBackward { problem, mask, of } => {
            vec![choose::through(b, problem, (*mask, *of), inputs)]
        }
        Routing::Hash { problem, seed, .. } => hash(b, problem, *seed, inputs),
        Routing::Load(problem) => vec![load(b, problem, inputs[0])],
    }
}

/// The product of rows \[T,…\] and Wg \[E,H\], f32 \[T, `columns`\]. It goes in blocks of one shape, as if all rows
/// were one expert's, so that a token's result doesn't depend on the other tokens.
fn product(b: &Builder, [rows, w]: [Value; 2], dims: &DotDims, columns: usize) -> Value {
    let (tokens, shape) = (b.shape(rows)[0], b.shape(w));
    let w = b.reshape(w, &[&[1], shape.as_slice()].concat());
    let all = b.integers(&[0, tokens as i64], S32);
    let (segments, ty) = (Segments::new(b, tokens, all), [tokens, columns]);
    let results = segments.walk(&[w], &[TensorType::new(ty, F32)], &[], |block, matrices| {
        vec![block_product(b, block.rows(rows), matrices[0], dims)]
    });
    results[0]
}

fn logits_backward(b: &Builder, hidden: usize, inputs: &[Value]) -> Vec<Value> {
    let (x, w, dlogits) = (inputs[0], inputs[1], inputs[2]);
    let types = [b.element(x), b.element(w)];
    let [x, w] = [x, w].map(|value| b.convert(value, F32));
    let dx = product(b, [dlogits, w], &DotDims::matmul(0), hidden);
    let dw = b.dot(dlogits, x, &DotDims::batched(0, 0, 0), F32);
    vec![b.convert(dx, types[0]), b.convert(dw, types[1])]
}

fn load(b: &Builder, p: &LoadProblem, indices: Value) -> Value {
    let (groups, experts) = (p.groups(), p.routing().experts());
    let all = vec![groups, p.tokens() * p.choices(), experts];
    if all.contains(&0) {
        return b.splat(0.0, TensorType::new([groups, experts], S32));
    }
    let indices = b.reshape(b.slice_dim(words(b, indices), 1, 0..p.choices()), &all[..2]);
    let indices = b.broadcast(indices, &all, &[0, 1]);
    let expert = b.iota(TensorType::new(all, U32), 2);
    b.sum(b.convert(b.eq(indices, expert), S32), &[1])
}

const NAN: u32 = 0x7FC0_0000;
const MAGNITUDE: u32 = 0x7FFF_FFFF;

/// Mixes a ui32 so that each bit affects all 32.
pub(super) fn mix(b: &Builder, value: Value) -> Value {
    let folded = |x, shift| b.xor(x, b.shift_right(x, shift));
    let value = b.mul(folded(value, 16.0), f64::from(0x7FEB_352Du32));
    let value = b.mul(folded(value, 15.0), f64::from(0x846C_A68Bu32));
    folded(value, 16.0)
}

/// The bits of f32s, with subnormal numbers and NaNs, which devices may change, replaced by 0 and one NaN.
fn stable_bits(b: &Builder, x: Value) -> Value {
    let bits = b.bitcast(x, U32);
    let magnitude = b.and(bits, f64::from(MAGNITUDE));
    let tiny = b.lt(magnitude, f64::from(SMALLEST_NORMAL));
    let nan = b.gt(magnitude, f64::from(INFINITY));
    let (zero, one_nan) = (b.splat_like(0.0, bits), b.splat_like(f64::from(NAN), bits));
    b.select(nan, one_nan, b.select(tiny, zero, bits))
}

/// The hash key of each token, ui32 \[T\].
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

/// Each expert's rank among the available ones, i32 \[T,E\], −1 if it isn't available itself; and the number of
/// available experts, i32.
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

/// One round of the choice: the expert \[T\] whose rank is `state` modulo the number of experts left, E if none is
/// left; and the ranks without that expert.
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

/// Appends the choice by hash: indices and weights. The operands are x, and a mask if there is one.
fn hash(b: &Builder, p: &HashProblem, seed: u32, inputs: &[Value]) -> Vec<Value> {
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
