//! The best of every row.

use crate::stablehlo::{Builder, Value};
use moebius_pjrt::{ElementType, TensorType};

const SIGN: u32 = 0x8000_0000;

/// ui32 keys that order as the floats, above 0: NaN is 1, −0 equals +0.
pub(super) fn keys(b: &Builder, x: Value) -> Value {
    let bits = b.bitcast(x, ElementType::U32);
    let sign = b.splat_like(f64::from(SIGN), bits);
    let zero = b.splat_like(0.0, bits);
    let bits = b.select(b.eq(bits, sign), zero, bits);
    let positive = b.lt(bits, sign);
    let (above, below) = (b.or(bits, sign), b.not(bits));
    let ordered = b.select(positive, above, below);
    b.add(b.select(b.ne(x, x), zero, ordered), 1.0)
}

/// The best of every row, largest first, equals by place.
pub(super) struct Best {
    /// i32 \[n,count\]: where they are; the length of a row for none.
    pub(super) places: Value,
    /// f32 \[n,count\]: their values, 0 for none.
    pub(super) values: Value,
    /// Booleans \[n,count\]: whether there is one.
    pub(super) found: Value,
}

/// The `count` largest keys, ui32 \[n,m\], of every row, with their values of `values` f32 \[n,m\]; a key of
/// 0 can't be taken.
pub(super) fn best(b: &Builder, keys: Value, values: Value, count: usize) -> Best {
    let shape = b.shape(keys);
    let row = shape[1];
    let place = b.iota(TensorType::new(shape, ElementType::S32), 1);
    let sorted = b.sort(&[keys, place, values], 1, |b, pairs| {
        b.gt(pairs[0], pairs[1])
    });
    let first = |b: &Builder, x| b.slice_dim(x, 1, 0..count);
    let [keys, places, values] = [sorted[0], sorted[1], sorted[2]].map(|x| first(b, x));
    let found = b.gt(keys, 0.0);
    let (none, zero) = (b.splat_like(row as f64, places), b.splat_like(0.0, values));
    Best {
        places: b.select(found, places, none),
        values: b.select(found, values, zero),
        found,
    }
}
