//! Slots by expert, after the capacity has dropped some: [`moebius_ops::permute`].
//!
//! A stable sort by key. On the CPU plugin (2 cores) 8192 slots take 1.0 ms for 8 experts and 1.2 ms for
//! 64; counting them, with sums over one-hot columns, takes 0.9 and 3.6 ms.

use super::{along, words};
use crate::ElementType;
use crate::stablehlo::{Binary, Builder, Compare, Reduction, TensorType, Unary, Value};
use moebius_ops::moe::sorting::Problem;
use moebius_ops::permute::Capacity;

/// ui32 \[E\].
fn capacities(
    b: &mut Builder,
    p: &Problem,
    capacity: &Capacity,
    mask: Option<Value>,
    factors: Option<Value>,
) -> Value {
    let ty = TensorType::new([p.experts()], ElementType::U32);
    let own = match factors {
        None => b.splat(
            capacity.slots_per_expert(p.slots(), p.experts()) as f64,
            ty.clone(),
        ),
        Some(factors) => {
            let all = b.binary_scalar(Binary::Multiply, factors, p.slots() as f64);
            // More than any share of the slots, and the division's rounding up can't overflow.
            let all = b.clamp(0.0, all, f64::from(1u32 << 31));
            let all = b.unary(Unary::Ceil, all);
            let all = b.convert(all, ElementType::U32);
            let all = b.binary_scalar(Binary::Add, all, (p.experts() - 1) as f64);
            let share = b.binary_scalar(Binary::Divide, all, p.experts() as f64);
            let share = b.binary_scalar(Binary::Maximum, share, capacity.min.min(p.slots()) as f64);
            b.binary_scalar(Binary::Minimum, share, p.slots() as f64)
        }
    };
    let Some(mask) = mask else {
        return own;
    };
    let mask = words(b, mask);
    let takes = b.compare_scalar(Compare::Ne, mask, 0.0);
    let zero = b.splat(0.0, ty.clone());
    let lost = b.select(takes, zero, own);
    let lost = b.reduce(Reduction::Sum, lost, &[0]);
    let takers = b.convert(takes, ElementType::U32);
    let takers = b.reduce(Reduction::Sum, takers, &[0]);
    let takers = b.binary_scalar(Binary::Maximum, takers, 1.0);
    let share = b.div(lost, takers);
    let share = b.broadcast(share, &ty.shape, &[]);
    let more = b.add(own, share);
    b.select(takes, more, zero)
}

/// The keys \[S\] of what the capacities \[E\] leave; E for a dropped slot.
fn kept(b: &mut Builder, p: &Problem, [keys, weights, capacities]: [Value; 3]) -> Value {
    let bits = b.bitcast(weights, ElementType::U32);
    let weight = b.binary_scalar(Binary::And, bits, f64::from(0x7FFF_FFFFu32));
    let slot = b.iota(TensorType::new([p.slots()], ElementType::U32), 0);
    let sorted = b.sort(&[keys, weight, slot], 0, |b, pairs| {
        let earlier = b.compare(Compare::Lt, pairs[0], pairs[1]);
        let same = b.compare(Compare::Eq, pairs[0], pairs[1]);
        let heavier = b.compare(Compare::Gt, pairs[2], pairs[3]);
        let heavier = b.and(same, heavier);
        b.or(earlier, heavier)
    });
    let (key, slot) = (sorted[0], sorted[2]);
    let offsets = offsets(b, p, keys);
    let first = b.take(offsets, key);
    let row = b.iota(TensorType::new([p.slots()], ElementType::U32), 0);
    let rank = b.sub(row, first);
    let none = b.splat(0.0, TensorType::new([1], ElementType::U32));
    let capacities = b.concatenate(&[capacities, none], 0);
    let capacity = b.take(capacities, key);
    let taken = b.compare(Compare::Lt, rank, capacity);
    let dropped = b.splat_like(p.experts() as f64, key);
    let key = b.select(taken, key, dropped);
    b.put(dropped, slot, key, None)
}

/// ui32 \[E+1\]: how many keys are smaller than 0 … E.
fn offsets(b: &mut Builder, p: &Problem, keys: Value) -> Value {
    let ty = TensorType::new([p.experts() + 1, p.slots()], ElementType::U32);
    let keys = along(b, keys, &ty.shape, 1);
    let expert = b.iota(ty, 0);
    let below = b.compare(Compare::Lt, keys, expert);
    let below = b.convert(below, ElementType::U32);
    b.reduce(Reduction::Sum, below, &[1])
}

/// Order, offsets, positions and dropped of weights, indices, and mask and factors where there are any.
pub(super) fn sort(b: &mut Builder, p: &Problem, mask: bool, inputs: &[Value]) -> Vec<Value> {
    let (slots, experts) = (p.slots(), p.experts());
    if slots == 0 {
        let zeros = |b: &mut Builder, len| {
            let ty = TensorType::new([len], ElementType::S32);
            b.splat(0.0, ty)
        };
        return [0, experts + 1, 0, 1].map(|len| zeros(b, len)).to_vec();
    }
    let flat = |b: &mut Builder, x| b.reshape(x, &[slots]);
    let (weights, indices) = (flat(b, inputs[0]), flat(b, inputs[1]));
    let mask = mask.then(|| inputs[2]);
    let factors = p.factors().then(|| inputs[inputs.len() - 1]);
    let indices = words(b, indices);
    let mut keys = b.binary_scalar(Binary::Minimum, indices, experts as f64);
    if let Some(capacity) = p.capacity() {
        let weights = b.convert(weights, ElementType::F32);
        let capacities = capacities(b, p, capacity, mask, factors);
        keys = kept(b, p, [keys, weights, capacities]);
    }
    let slot = b.iota(TensorType::new([slots], ElementType::S32), 0);
    let sorted = b.sort(&[keys, slot], 0, |b, pairs| {
        b.compare(Compare::Lt, pairs[0], pairs[1])
    });
    let order = sorted[1];
    let offsets = offsets(b, p, keys);
    let offsets = b.convert(offsets, ElementType::S32);
    let nowhere = b.splat_like(-1.0, slot);
    let positions = b.put(nowhere, order, slot, None);
    let some = b.compare_scalar(Compare::Lt, keys, experts as f64);
    let positions = b.select(some, positions, nowhere);
    let kept = b.slice_dim(offsets, 0, experts..experts + 1);
    let all = b.splat_like(slots as f64, kept);
    vec![order, offsets, positions, b.sub(all, kept)]
}
