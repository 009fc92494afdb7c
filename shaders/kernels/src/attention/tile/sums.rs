//! Probabilities times values: one form for GPUs, another for software adapters.

use super::{Rows, Source, Spec};
use crate::attention::shape::LANES;
use cubecl::prelude::*;

/// Adds probabilities times values for the lanes from `begin` to before `end` of N keys in the tile. If `careful`, a probability
/// of 0 gives 0 for any value, so that a hidden key passes no NaN on.
#[cube]
pub(super) fn weigh<N: Size>(
    rows: &mut Rows<N>,
    tile: &Shared<[Vector<f32, N>]>,
    source: &Source,
    lanes: Vector<i32, N>,
    begin: usize,
    end: usize,
    scores: &Array<Vector<f32, N>>,
    #[comptime] careful: bool,
    #[comptime] spec: Spec,
) {
    let count = comptime!(spec.shape.rows);
    let value_vectors = comptime!(spec.form.value_vectors);
    let values = comptime!(spec.shape.keys * spec.form.vectors);
    let zero = Vector::<f32, N>::new(0.0f32);
    for lane in begin..end {
        let own = lanes.equal(&Vector::new(lane as i32));
        let mut p = Array::<Vector<f32, N>>::new(count);
        #[unroll]
        for row in 0..count {
            p[row] = Vector::new(select_many(own, scores[row], zero).vector_sum());
        }
        #[unroll]
        for d in 0..value_vectors {
            let value = tile[values + (source.in_tile + lane) * value_vectors + d];
            #[unroll]
            for row in 0..count {
                let sum = comptime!(row * value_vectors + d);
                let mut factor = value;
                if comptime!(careful) {
                    factor = select_many(p[row].equal(&zero), zero, value);
                }
                rows.sums[sum] = fma(p[row], factor, rows.sums[sum]);
            }
        }
    }
}

/// Shrinks the sums and adds probabilities times values for all N keys, read from the buffer; a probability of 0 gives 0 for any
/// value. SwiftShader keeps sums in memory: storing them for each key, and once more to shrink them, took 120 of 209 ms, while
/// the scores took 40 (8 heads of 64, 512 queries and keys, 2 cores of an EPYC with AVX2).
#[cube]
pub(super) fn weigh_all<F: Float, N: Size>(
    rows: &mut Rows<N>,
    v: &[Vector<F, N>],
    source: &Source,
    scores: &Array<Vector<f32, N>>,
    shrinks: &Array<f32>,
    #[comptime] spec: Spec,
) {
    let count = comptime!(spec.shape.rows);
    let value_vectors = comptime!(spec.form.value_vectors);
    // A mask of a value's bits, all or none: selecting each value would take three instructions instead of one.
    let mut kept = Array::<Vector<u32, N>>::new(comptime!(count * LANES));
    #[unroll]
    for row in 0..count {
        #[unroll]
        for lane in 0..comptime!(LANES) {
            let none = scores[row].extract(lane) == 0.0f32;
            kept[comptime!(row * LANES + lane)] = Vector::new(select(none, 0u32, u32::MAX));
        }
    }
    #[unroll]
    for d in 0..value_vectors {
        let mut values = Array::<Vector<u32, N>>::new(comptime!(LANES));
        #[unroll]
        for lane in 0..comptime!(LANES) {
            let key = min(source.key + lane, source.last);
            let at = source.values + key * source.value_step + d;
            let value = Vector::<f32, N>::cast_from(v[at]);
            values[lane] = Vector::<u32, N>::reinterpret(value);
        }
        #[unroll]
        for row in 0..count {
            let at = comptime!(row * value_vectors + d);
            let mut sum = rows.sums[at] * Vector::new(shrinks[row]);
            #[unroll]
            for lane in 0..comptime!(LANES) {
                let p = Vector::<f32, N>::new(scores[row].extract(lane));
                let bits = values[lane] & kept[comptime!(row * LANES + lane)];
                sum = fma(p, Vector::<f32, N>::reinterpret(bits), sum);
            }
            rows.sums[at] = sum;
        }
    }
}
