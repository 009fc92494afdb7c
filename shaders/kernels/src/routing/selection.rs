//! Device functions of the choice: keys that order like floats, the best expert of a row, the best groups.
//!
//! A key is an integer above 0; 0 marks what can't be chosen. Fast-math modes can't change comparisons of integers, and NaN gets
//! the lowest key.

use super::Groups;
use cubecl::prelude::*;

const SIGN: u32 = 0x8000_0000;
const INFINITY: u32 = 0x7F80_0000;

/// Marks a group whose experts may be chosen; it is above every key.
const OPEN: u32 = u32::MAX;

/// The keys of floats: NaN is 1, and −0 equals +0.
#[cube]
fn key_of<N: Size>(values: Vector<f32, N>) -> Vector<u32, N> {
    let sign = Vector::<u32, N>::new(comptime!(SIGN));
    let bits = Vector::<u32, N>::reinterpret(values);
    let bits = select_many(bits.equal(&sign), Vector::new(0u32), bits);
    let flipped = select_many(bits.less_than(&sign), bits | sign, !bits);
    select_many(is_nan::<N>(values), Vector::new(0u32), flipped) + Vector::new(1u32)
}

/// Which values are NaN, decided by their bits.
#[cube]
fn is_nan<N: Size>(values: Vector<f32, N>) -> Vector<bool, N> {
    let magnitude = Vector::<u32, N>::reinterpret(values) & Vector::new(comptime!(SIGN - 1));
    magnitude.greater_than(&Vector::new(comptime!(INFINITY)))
}

/// exp(x) that keeps NaN, which WGSL allows a driver to turn into any number.
#[cube]
pub(super) fn exp_or_nan<N: Size>(x: Vector<f32, N>) -> Vector<f32, N> {
    select_many(is_nan::<N>(x), x, x.exp())
}

/// largest + ln(sum): −∞ for an empty sum and NaN for a NaN sum, neither of which WGSL guarantees.
#[cube]
pub(super) fn logsumexp(largest: f32, sum: f32) -> f32 {
    let bits = u32::reinterpret(sum);
    let nan = bits & comptime!(SIGN - 1) > comptime!(INFINITY);
    let lse = select(nan, bits, u32::reinterpret(largest + sum.ln()));
    f32::reinterpret(select(bits == 0, comptime!(SIGN | INFINITY), lse))
}

/// The float whose key is `key`.
#[cube]
fn float_of(key: u32) -> f32 {
    let flipped = key - 1;
    let negative = flipped < comptime!(SIGN);
    f32::reinterpret(select(negative, !flipped, flipped & comptime!(SIGN - 1)))
}

/// The indices of a vector's lanes.
#[cube]
pub(super) fn lane_indices<N: Size>() -> Vector<u32, N> {
    let mut lanes = Vector::<u32, N>::empty();
    #[unroll]
    for lane in 0..N::value() {
        lanes.insert(lane, comptime!(lane as u32).runtime());
    }
    lanes
}

/// Vector `at` of a row: `values` for available experts, `other` for the rest.
#[cube]
pub(super) fn masked<T: Scalar, N: Size>(
    mask: &ComptimeOption<&[Vector<u32, N>]>,
    at: usize,
    values: Vector<T, N>,
    other: Vector<T, N>,
) -> Vector<T, N> {
    #[comptime]
    match mask {
        ComptimeOption::Some(mask) => {
            select_many(mask[at].not_equal(&Vector::new(0u32)), values, other)
        }
        ComptimeOption::None => values,
    }
}

/// The keys of value + bias for the experts of vector `i` of the row that starts at vector `first`.
#[cube]
fn keys<N: Size>(
    values: &[Vector<f32, N>],
    mask: &ComptimeOption<&[Vector<u32, N>]>,
    bias: &ComptimeOption<&[Vector<f32, N>]>,
    first: usize,
    i: usize,
) -> Vector<u32, N> {
    #[comptime]
    let biased = match bias {
        ComptimeOption::Some(bias) => values[first + i] + bias[i],
        ComptimeOption::None => values[first + i],
    };
    masked::<u32, N>(mask, i, key_of::<N>(biased), Vector::new(0u32))
}

/// The key of expert `expert` of the row that starts at vector `first`.
#[cube]
pub(super) fn key_at<N: Size>(
    values: &[Vector<f32, N>],
    mask: &ComptimeOption<&[Vector<u32, N>]>,
    bias: &ComptimeOption<&[Vector<f32, N>]>,
    first: usize,
    expert: usize,
) -> u32 {
    let all = keys::<N>(values, mask, bias, first, expert / N::value());
    all.extract_dynamic(expert % N::value())
}

/// The best expert so far of every lane.
#[derive(CubeType)]
struct Best<N: Size> {
    key: Vector<u32, N>,
    expert: Vector<u32, N>,
}

/// A row of experts, and the previous choice from it.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Search {
    /// The row's first vector, and its number of vectors.
    pub(super) first: usize,
    pub(super) row: usize,
    pub(super) last_key: u32,
    pub(super) last_expert: u32,
}

/// Updates `best` with the vectors from `from` to before `to` of a row, considering only experts after the `last` one in the
/// order (key descending, index ascending).
#[cube]
fn scan<N: Size>(
    values: &[Vector<f32, N>],
    mask: &ComptimeOption<&[Vector<u32, N>]>,
    bias: &ComptimeOption<&[Vector<f32, N>]>,
    best: &mut Best<N>,
    at: &Search,
    from: usize,
    to: usize,
) {
    let lanes = lane_indices::<N>();
    let last_key = Vector::<u32, N>::new(at.last_key);
    let last_expert = Vector::<u32, N>::new(at.last_expert);
    for i in from..to {
        let expert = lanes + Vector::new((i * N::value()) as u32);
        let key = keys::<N>(values, mask, bias, at.first, i);
        let later = expert.greater_than(&last_expert);
        let tie = key.equal(&last_key).vec_and(later);
        let after = key.less_than(&last_key).or(tie);
        let better = key.greater_than(&best.key).vec_and(after);
        best.key = select_many(better, key, best.key);
        best.expert = select_many(better, expert, best.expert);
    }
}

/// The key and the index of the best expert after the `last` one in the open groups of a row, ties to the lowest index; the key
/// is 0 if there is none.
#[cube]
pub(super) fn next_best<N: Size>(
    values: &[Vector<f32, N>],
    mask: &ComptimeOption<&[Vector<u32, N>]>,
    bias: &ComptimeOption<&[Vector<f32, N>]>,
    open: &Array<u32>,
    at: &Search,
    #[comptime] groups: usize,
) -> (u32, u32) {
    let mut best = Best::<N> {
        key: Vector::new(0u32),
        expert: Vector::new(0u32),
    };
    if comptime!(groups == 1) {
        scan::<N>(values, mask, bias, &mut best, at, 0usize.runtime(), at.row);
    } else {
        let vectors = at.row / groups;
        for group in 0..groups {
            if open[group] == comptime!(OPEN) {
                let (from, to) = (group * vectors, (group + 1) * vectors);
                scan::<N>(values, mask, bias, &mut best, at, from, to);
            }
        }
    }
    let mut key = best.key.extract(0usize);
    let mut expert = best.expert.extract(0usize);
    #[unroll]
    for lane in 1..N::value() {
        let other = best.key.extract(lane);
        let index = best.expert.extract(lane);
        let better = other > key || (other == key && index < expert);
        key = select(better, other, key);
        expert = select(better, index, expert);
    }
    (key, expert)
}

/// A word for every group of a row, [`OPEN`] for the chosen groups: those with the largest sum of their best biased scores, as
/// many as `groups` says, ties to the lowest group.
#[cube]
pub(super) fn open_groups<N: Size>(
    scores: &[Vector<f32, N>],
    mask: &ComptimeOption<&[Vector<u32, N>]>,
    bias: &ComptimeOption<&[Vector<f32, N>]>,
    first: usize,
    row: usize,
    #[comptime] groups: Groups,
) -> Array<u32> {
    let vectors = row / comptime!(groups.count);
    let mut words = Array::<u32>::new(comptime!(groups.count));
    for group in 0..comptime!(groups.count) {
        let mut best = Vector::<u32, N>::new(0u32);
        let mut second = Vector::<u32, N>::new(0u32);
        for i in group * vectors..(group + 1) * vectors {
            let key = keys::<N>(scores, mask, bias, first, i);
            if comptime!(groups.best > 1) {
                second = max(second, min(best, key));
            }
            best = max(best, key);
        }
        words[group] = key_of_sum::<N>(best, second, comptime!(groups.best));
    }
    for _ in 0..comptime!(groups.chosen) {
        let mut chosen = 0usize;
        let mut best = 0u32;
        for group in 0..comptime!(groups.count) {
            let word = words[group];
            if word > best && word != comptime!(OPEN) {
                best = word;
                chosen = group;
            }
        }
        if best > 0 {
            words[chosen] = comptime!(OPEN);
        }
    }
    words
}

/// The key of the sum of the two floats with the best keys, given the two best keys of every lane; the key of a single float if
/// `count` is 1 or there is no second, and 0 if there is none.
#[cube]
fn key_of_sum<N: Size>(
    best: Vector<u32, N>,
    second: Vector<u32, N>,
    #[comptime] count: usize,
) -> u32 {
    let mut a = best.extract(0usize);
    let mut b = second.extract(0usize);
    #[unroll]
    for lane in 1..N::value() {
        let other = best.extract(lane);
        if comptime!(count > 1) {
            b = max(max(b, second.extract(lane)), min(a, other));
        }
        a = max(a, other);
    }
    let mut key = 0u32;
    if a > 0 {
        let mut sum = float_of(a);
        if b > 0 {
            sum += float_of(b);
        }
        key = key_of::<Const<1>>(Vector::new(sum)).extract(0usize);
    }
    key
}
