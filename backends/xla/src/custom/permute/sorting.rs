//! Slots by expert, after the capacity has dropped some: [`moebius_ops::permute`].
//!
//! A stable sort by key. On the CPU plugin (2 cores) 8192 slots take 1.0 ms for 8 experts and 1.2 ms for
//! 64; counting them, with sums over one-hot columns, takes 0.9 and 3.6 ms.

use crate::custom::values::{along, words};
use crate::stablehlo::{Builder, Value};
use moebius_ops::permute::Capacity;
use moebius_ops::permute::sorting::Problem;
use moebius_pjrt::ElementType::{self, S32, U32};
use moebius_pjrt::TensorType;

/// ui32 \[E\].
fn capacities(
    b: &Builder,
    p: &Problem,
    capacity: &Capacity,
    mask: Option<Value>,
    factors: Option<Value>,
) -> Value {
    let ty = TensorType::new([p.experts()], U32);
    let own = match factors {
        None => {
            let even = capacity.slots_per_expert(p.slots(), p.experts());
            b.splat(even as f64, ty.clone())
        }
        Some(factors) => {
            let all = b.mul(factors, p.slots() as f64);
            // More than any share of the slots, and the division's rounding up can't overflow.
            let all = b.ceil(b.clamp(0.0, all, f64::from(1u32 << 31)));
            let all = b.add(b.convert(all, U32), (p.experts() - 1) as f64);
            let share = b.div(all, p.experts() as f64);
            let share = b.max(share, capacity.min.min(p.slots()) as f64);
            b.min(share, p.slots() as f64)
        }
    };
    let Some(mask) = mask else {
        return own;
    };
    let takes = b.ne(words(b, mask), 0.0);
    let zero = b.splat(0.0, ty.clone());
    let lost = b.sum(b.select(takes, zero, own), &[0]);
    let takers = b.sum(b.convert(takes, U32), &[0]);
    let share = b.broadcast(b.div(lost, b.max(takers, 1.0)), &ty.shape, &[]);
    b.select(takes, b.add(own, share), zero)
}

/// The keys \[S\] of what the capacities \[E\] leave; E for a dropped slot.
fn kept(b: &Builder, p: &Problem, [keys, weights, capacities]: [Value; 3]) -> Value {
    let weight = b.and(b.bitcast(weights, U32), f64::from(0x7FFF_FFFFu32));
    let slot = b.iota(TensorType::new([p.slots()], U32), 0);
    let sorted = b.sort(&[keys, weight, slot], 0, |b, pairs| {
        let earlier = b.lt(pairs[0], pairs[1]);
        let heavier = b.and(b.eq(pairs[0], pairs[1]), b.gt(pairs[2], pairs[3]));
        b.or(earlier, heavier)
    });
    let (key, slot) = (sorted[0], sorted[2]);
    let first = b.take(offsets(b, p, keys), key);
    let rank = b.sub(b.iota(TensorType::new([p.slots()], U32), 0), first);
    let none = b.splat(0.0, TensorType::new([1], U32));
    let taken = b.lt(rank, b.take(b.concatenate(&[capacities, none], 0), key));
    let dropped = b.splat_like(p.experts() as f64, key);
    b.put(dropped, slot, b.select(taken, key, dropped), None)
}

/// ui32 \[E+1\]: how many keys are smaller than 0 … E.
fn offsets(b: &Builder, p: &Problem, keys: Value) -> Value {
    let ty = TensorType::new([p.experts() + 1, p.slots()], U32);
    let below = b.lt(along(b, keys, &ty.shape, 1), b.iota(ty, 0));
    b.sum(b.convert(below, U32), &[1])
}

/// Keys ui32 \[S\] of weights, indices, and mask and factors where there are any: a slot's expert, and E where a
/// capacity drops the slot or none was found.
pub(crate) fn slot_keys(b: &Builder, p: &Problem, mask: bool, inputs: &[Value]) -> Value {
    let (slots, experts) = (p.slots(), p.experts());
    let flat = |b: &Builder, x| b.reshape(x, &[slots]);
    let (weights, indices) = (flat(b, inputs[0]), flat(b, inputs[1]));
    let mask = mask.then(|| inputs[2]);
    let factors = p.factors().then(|| inputs[inputs.len() - 1]);
    let mut keys = b.min(words(b, indices), experts as f64);
    if let Some(capacity) = p.capacity() {
        let weights = b.convert(weights, ElementType::F32);
        let capacities = capacities(b, p, &capacity, mask, factors);
        keys = kept(b, p, [keys, weights, capacities]);
    }
    keys
}

/// Order, offsets, positions and dropped, of the operands of [`slot_keys`].
pub(in crate::custom) fn sort(
    b: &Builder,
    p: &Problem,
    mask: bool,
    inputs: &[Value],
) -> Vec<Value> {
    let (slots, experts) = (p.slots(), p.experts());
    if slots == 0 {
        let zeros = |b: &Builder, len| b.splat(0.0, TensorType::new([len], S32));
        return [0, experts + 1, 0, 1].map(|len| zeros(b, len)).to_vec();
    }
    let keys = slot_keys(b, p, mask, inputs);
    let slot = b.iota(TensorType::new([slots], S32), 0);
    let sorted = b.sort(&[keys, slot], 0, |b, pairs| b.lt(pairs[0], pairs[1]));
    let order = sorted[1];
    let offsets = b.convert(offsets(b, p, keys), S32);
    let nowhere = b.splat_like(-1.0, slot);
    let positions = b.put(nowhere, order, slot, None);
    let positions = b.select(b.lt(keys, experts as f64), positions, nowhere);
    let kept = b.slice_dim(offsets, 0, experts..experts + 1);
    let all = b.splat_like(slots as f64, kept);
    vec![order, offsets, positions, b.sub(all, kept)]
}
