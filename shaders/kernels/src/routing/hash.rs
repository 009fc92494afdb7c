//! How CubeCL computes [`moebius_ops::routing::hash_reference`].

use super::selection::lane_indices;
use crate::prelude::*;
use crate::rounds::{fits_rounds, looped};
use cubecl::prelude::*;
use moebius_ops::routing::{HashKey, HashProblem};
use moebius_ops::routing::{INFINITY, PHI, SMALLEST_NORMAL};

const KERNEL: &str = "hash_route";

/// A [`HashProblem`], planned for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashPlan {
    problem: HashProblem,
    lanes: usize,
    grid: Grid,
}

/// Plans the choice: one unit per token; `masked` says whether some experts may be unavailable.
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, and for more than a binding, a grid or the rounds of an invocation's loops
/// hold.
pub fn plan_hash(
    problem: HashProblem,
    masked: bool,
    device: &Capability,
) -> Result<HashPlan, Unsupported> {
    let (hidden, element) = (problem.hidden(), problem.element());
    element.supported(KERNEL, device)?;
    let tokens = problem.routing().tokens();
    crate::fits_binding(KERNEL, tokens * hidden * element.bytes(), device)?;
    let lanes = match hidden {
        0 => 1,
        _ => lanes(hidden, 4, device),
    };
    let (experts, top_k) = (problem.routing().experts(), problem.routing().top_k());
    let of_mask = if masked { looped(experts, 0) } else { 0 };
    let of_choice = 2 * looped(top_k, 0) + of_mask;
    let rounds = looped(hidden / lanes, 0) + of_mask + looped(top_k, of_choice);
    fits_rounds(KERNEL, rounds, device)?;
    Ok(HashPlan {
        problem,
        lanes,
        grid: Grid::elementwise(KERNEL, tokens, device)?,
    })
}

/// The 32-bit avalanche function lowbias32, on a vector.
#[cube]
pub(crate) fn mix<N: Size>(value: Vector<u32, N>) -> Vector<u32, N> {
    let a = (value ^ (value >> Vector::new(16u32))) * Vector::new(0x7FEB_352Du32);
    let b = (a ^ (a >> Vector::new(15u32))) * Vector::new(0x846C_A68Bu32);
    b ^ (b >> Vector::new(16u32))
}

/// [`mix`] of one word.
#[cube]
pub(crate) fn mix_one(value: u32) -> u32 {
    mix::<Const<1>>(Vector::new(value)).extract(0usize)
}

/// The f32 bits of the values; subnormals, −0 and NaN, which devices may change, are replaced by fixed bits.
#[cube]
fn stable_bits<N: Size>(values: Vector<f32, N>) -> Vector<u32, N> {
    let bits = Vector::<u32, N>::reinterpret(values);
    let magnitude = bits & Vector::new(0x7FFF_FFFFu32);
    let tiny = magnitude.less_than(&Vector::new(comptime!(SMALLEST_NORMAL)));
    let nan = magnitude.greater_than(&Vector::new(comptime!(INFINITY)));
    let bits = select_many(tiny, Vector::new(0u32), bits);
    select_many(nan, Vector::new(0x7FC0_0000u32), bits)
}

/// The key of a token: the hash of its `of_key` vectors, or its position in a sequence of `of_key` tokens.
#[cube]
fn token_key<F: Float, N: Size>(
    x: &ComptimeOption<&[Vector<F, N>]>,
    token: usize,
    of_key: usize,
) -> u32 {
    #[comptime]
    match x {
        ComptimeOption::Some(x) => {
            let width = N::value();
            let mut at = lane_indices::<N>() * Vector::new(comptime!(PHI));
            let mut sums = Vector::<u32, N>::new(0u32);
            for i in 0..of_key {
                let value = Vector::<f32, N>::cast_from(x[token * of_key + i]);
                sums += mix::<N>(stable_bits::<N>(value) + at);
                at += Vector::new(comptime!(PHI.wrapping_mul(width as u32)));
            }
            let mut key = sums.extract(0usize);
            #[unroll]
            for lane in 1..N::value() {
                key += sums.extract(lane);
            }
            key
        }
        ComptimeOption::None => (token % of_key) as u32,
    }
}

/// The number of available experts.
#[cube]
fn count_available(mask: &ComptimeOption<&[u32]>, experts: usize) -> u32 {
    #[comptime]
    match mask {
        ComptimeOption::Some(mask) => {
            let mut count = 0u32;
            for e in 0..experts {
                count += select(mask[e] != 0, 1u32, 0u32);
            }
            count
        }
        ComptimeOption::None => experts as u32,
    }
}

/// The available expert with exactly `rank` available experts before it.
#[cube]
fn nth_available(mask: &ComptimeOption<&[u32]>, experts: usize, rank: u32) -> u32 {
    #[comptime]
    match mask {
        ComptimeOption::Some(mask) => {
            let mut before = 0u32;
            let mut found = 0u32;
            for e in 0..experts {
                if mask[e] != 0 {
                    found = select(before == rank, e as u32, found);
                    before += 1;
                }
            }
            found
        }
        ComptimeOption::None => rank,
    }
}

/// Converts a rank among the experts not taken yet into a rank among all, and inserts it into the first `count` entries of
/// `taken`, which are in ascending order.
#[cube]
fn take(taken: &mut Array<u32>, count: usize, rank: u32) -> u32 {
    let mut rank = rank;
    let mut below = 0usize;
    for j in 0..count {
        if rank >= taken[j] {
            rank += 1;
            below += 1;
        }
    }
    for j in 0..count - below {
        taken[count - j] = taken[count - j - 1];
    }
    taken[below] = rank;
    rank
}

/// Chooses experts by hash; one unit per token. `of_key` is the length of a sequence, or the vectors of a row.
#[cube(launch_unchecked)]
fn hash_route<F: Float, N: Size>(
    x: ComptimeOption<&[Vector<F, N>]>,
    mask: ComptimeOption<&[u32]>,
    indices: &mut [u32],
    weights: &mut [f32],
    tokens: usize,
    experts: usize,
    of_key: usize,
    seed: u32,
    #[comptime] top_k: usize,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < tokens {
        let key = token_key::<F, N>(&x, ABSOLUTE_POS, of_key);
        let mut state = mix_one(key ^ mix_one(seed));
        let available = count_available(&mask, experts);
        let mut taken = Array::<u32>::new(top_k);
        for k in 0..top_k {
            let mut expert = experts as u32;
            let mut weight = 0.0f32;
            if (k as u32) < available {
                state = mix_one(state + comptime!(PHI));
                let rank = take(&mut taken, k, state % (available - k as u32));
                expert = nth_available(&mask, experts, rank);
                weight = comptime!(1.0 / top_k as f32).runtime();
            }
            indices[ABSOLUTE_POS * top_k + k] = expert;
            weights[ABSOLUTE_POS * top_k + k] = weight;
        }
    }
}

buffers! {
    /// Buffers of a choice by hash.
    pub struct HashBuffers {
        pub x: Option<Handle> => "[T,H]" read: "there where the content is hashed",
        pub mask: Option<Handle> => "[E] u32" read,
        pub indices: Handle => "[T,K] u32" written,
        pub weights: Handle => "[T,K] f32" written,
    }
}

/// Enqueues the choice: one launch.
pub fn launch_hash(client: &Client, plan: &HashPlan, seed: u32, buffers: HashBuffers) {
    let (problem, lanes, grid) = (&plan.problem, plan.lanes, plan.grid);
    let routing = &problem.routing();
    if routing.tokens() == 0 {
        return;
    }
    let (of_key, x) = match (problem.key(), buffers.x) {
        (HashKey::Position { sequence }, _) => (sequence, None),
        (HashKey::Content { hidden, .. }, Some(x)) => (hidden / lanes, Some(x)),
        _ => unreachable!("a hash of the content is launched with x"),
    };
    launched::note(|| name(problem.key(), buffers.mask.is_some()));
    let (count, dim, element) = (grid.count(), grid.dim(), problem.element().elem_type());
    let (x, mask) = (x.map(bind).into(), buffers.mask.map(bind).into());
    let [indices, weights] = [buffers.indices, buffers.weights].map(bind);
    let (tokens, experts, top_k) = (routing.tokens(), routing.experts(), routing.top_k());
    // SAFETY: the buffers are as long as they are described; units past the last token return.
    unsafe {
        hash_route::launch_unchecked(
            client, count, dim, lanes, x, mask, indices, weights, tokens, experts, of_key, seed,
            top_k, element,
        );
    }
}

pub(super) fn name(key: HashKey, masked: bool) -> String {
    let masked = launched::suffix(masked, "_masked");
    match key {
        HashKey::Position { .. } => format!("hash_route_position{masked}"),
        HashKey::Content { element, .. } => format!("hash_route_content_{element}{masked}"),
    }
}
