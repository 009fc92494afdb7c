//! Hash routing: K distinct available experts per token, chosen by an integer hash, weight 1/K each.
//!
//! With A experts available, choice k is the (h_k mod (A − k))-th of those not chosen yet, where
//! h_k = mix(h_{k−1} + φ), h_{−1} = mix(key ⊕ mix(seed)), mix is an avalanche of 32 bits (lowbias32, Chris
//! Wellons) and φ = 0x9E3779B9. Arithmetic is modulo 2³². The key of token t is
//! - [`HashKey::Position`]: t mod `sequence`, whatever the token holds;
//! - [`HashKey::Content`]: Σ_h mix(bits(x\[t,h\]) + φ·h), bits of the value as f32. Subnormals of f32 and −0
//!   count as 0 and all NaN as one, as devices may change them.
//!
//! Shapes: x \[T,H\] f32, f16 or bf16, mask u32 \[E\], indices u32 and weights f32 \[T,K\]. Slots beyond the
//! A-th hold index E and weight 0. Every step is exact, so every device agrees with the reference.
//!
//! Operations: 8 per element of x; K² + K·E with a mask per token. Bytes: x read, 8·T·K written.

use super::Problem;
use super::selection::lane_indices;
use crate::element::Element;
use crate::error::{ShapeError, Unsupported};
use crate::grid::{Grid, lanes};
use crate::launched;
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::Capability;

const KERNEL: &str = "hash_route";
/// 2³² divided by the golden ratio.
const PHI: u32 = 0x9E37_79B9;
const INFINITY: u32 = 0x7F80_0000;
const SMALLEST_NORMAL: u32 = 0x0080_0000;

/// A unit keeps its choices in memory of its own, of which WebGPU promises 8 KiB.
const MAX_TOP_K: usize = 1024;

/// What is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashKey {
    /// The position of the token in its sequence.
    Position {
        /// Tokens of a sequence; the batch holds one after the other.
        sequence: usize,
    },
    /// The numbers of the token's row.
    Content {
        /// Columns H.
        hidden: usize,
        /// Type of x.
        element: Element,
    },
}

/// A choice by hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashProblem {
    routing: Problem,
    key: HashKey,
}

impl HashProblem {
    /// Chooses for the tokens of `routing`, of which only the sizes matter, by `key`.
    ///
    /// # Errors
    /// [`ShapeError`] for sequences or rows of length 0, more than 2³¹ − 1 elements, or more than 1024
    /// choices per token.
    pub fn new(routing: Problem, key: HashKey) -> Result<Self, ShapeError> {
        let (what, len) = match key {
            HashKey::Position { sequence } => ("tokens of a sequence", sequence),
            HashKey::Content { hidden, .. } => ("columns", hidden),
        };
        if routing.top_k > MAX_TOP_K {
            let expected = format!("at most {MAX_TOP_K}");
            return Err(ShapeError::new("hashed top_k", expected, routing.top_k));
        }
        if !(1..=i32::MAX as usize).contains(&len) {
            return Err(ShapeError::new(what, "1 to 2^31 - 1", len));
        }
        if let HashKey::Content { hidden, .. } = key {
            let elements = routing.tokens.checked_mul(hidden);
            if elements.is_none_or(|n| n > i32::MAX as usize) {
                let got = format!("{} x {hidden}", routing.tokens);
                return Err(ShapeError::new("tokens x columns", "at most 2^31 - 1", got));
            }
        }
        Ok(Self { routing, key })
    }

    /// Elements of a row of x; 0 where the position is hashed.
    fn hidden(&self) -> usize {
        match self.key {
            HashKey::Position { .. } => 0,
            HashKey::Content { hidden, .. } => hidden,
        }
    }

    fn element(&self) -> Element {
        match self.key {
            HashKey::Position { .. } => Element::F32,
            HashKey::Content { element, .. } => element,
        }
    }
}

/// A [`HashProblem`] this device can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashPlan {
    problem: HashProblem,
    lanes: usize,
    grid: Grid,
}

/// Plans the choice: one unit per token.
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, or more than a binding or a grid holds.
pub fn plan_hash(problem: HashProblem, device: &Capability) -> Result<HashPlan, Unsupported> {
    let (hidden, element) = (problem.hidden(), problem.element());
    element.supported(KERNEL, device)?;
    let tokens = problem.routing.tokens;
    crate::fits_binding(KERNEL, tokens * hidden * element.bytes(), device)?;
    Ok(HashPlan {
        problem,
        lanes: if hidden == 0 {
            1
        } else {
            lanes(hidden, 4, device)
        },
        grid: Grid::elementwise(KERNEL, tokens, device)?,
    })
}

/// Spreads every bit over all 32.
#[cube]
fn mix<N: Size>(value: Vector<u32, N>) -> Vector<u32, N> {
    let a = (value ^ (value >> Vector::new(16u32))) * Vector::new(0x7FEB_352Du32);
    let b = (a ^ (a >> Vector::new(15u32))) * Vector::new(0x846C_A68Bu32);
    b ^ (b >> Vector::new(16u32))
}

/// [`mix`] of one word.
#[cube]
fn mix_one(value: u32) -> u32 {
    mix::<Const<1>>(Vector::new(value)).extract(0usize)
}

/// The bits of the numbers, those that devices may change made one.
#[cube]
fn stable_bits<N: Size>(values: Vector<f32, N>) -> Vector<u32, N> {
    let bits = Vector::<u32, N>::reinterpret(values);
    let magnitude = bits & Vector::new(0x7FFF_FFFFu32);
    let tiny = magnitude.less_than(&Vector::new(comptime!(SMALLEST_NORMAL)));
    let nan = magnitude.greater_than(&Vector::new(comptime!(INFINITY)));
    let bits = select_many(tiny, Vector::new(0u32), bits);
    select_many(nan, Vector::new(0x7FC0_0000u32), bits)
}

/// The key of a token: the hash of `of_key` vectors, or its place in a sequence of `of_key`.
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

/// How many experts are available.
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

/// The available expert that `rank` others precede.
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

/// Turns a rank among the first `count` experts not taken into one among all, and takes it; `taken`
/// is in ascending order.
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

/// One unit per token; `of_key` is the length of a sequence or the vectors of a row.
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

/// Buffers of a choice by hash.
pub struct HashBuffers {
    /// \[T,H\], read; there if and only if the content is hashed.
    pub x: Option<Handle>,
    /// \[E\] u32, read.
    pub mask: Option<Handle>,
    /// \[T,K\] u32, written.
    pub indices: Handle,
    /// \[T,K\] f32, written.
    pub weights: Handle,
}

/// Enqueues the choice: one launch.
pub fn launch_hash(client: &Client, plan: &HashPlan, seed: u32, buffers: HashBuffers) {
    let HashPlan {
        problem,
        lanes,
        grid,
    } = *plan;
    let routing = &problem.routing;
    if routing.tokens == 0 {
        return;
    }
    let of_key = match problem.key {
        HashKey::Position { sequence } => sequence,
        HashKey::Content { hidden, .. } => hidden / lanes,
    };
    let x = match problem.key {
        HashKey::Position { .. } => None,
        HashKey::Content { .. } if buffers.x.is_none() => {
            unreachable!("a hash of the content is launched with x")
        }
        HashKey::Content { .. } => buffers.x,
    };
    launched::note(|| name(problem.key, buffers.mask.is_some()));
    // SAFETY: the caller's buffers have the planned shapes; units past the last token return.
    unsafe {
        let x = x.map(|x| BufferArg::from_raw_parts(x, routing.tokens * of_key));
        let mask = buffers
            .mask
            .map(|mask| BufferArg::from_raw_parts(mask, routing.experts));
        hash_route::launch_unchecked(
            client,
            grid.count(),
            grid.dim(),
            lanes,
            x.into(),
            mask.into(),
            BufferArg::from_raw_parts(buffers.indices, routing.slots()),
            BufferArg::from_raw_parts(buffers.weights, routing.slots()),
            routing.tokens,
            routing.experts,
            of_key,
            seed,
            routing.top_k,
            problem.element().elem_type(),
        );
    }
}

fn name(key: HashKey, masked: bool) -> String {
    let masked = launched::suffix(masked, "_masked");
    match key {
        HashKey::Position { .. } => format!("hash_route_position{masked}"),
        HashKey::Content { element, .. } => format!("hash_route_content_{element}{masked}"),
    }
}

fn mix_host(value: u32) -> u32 {
    let a = (value ^ (value >> 16)).wrapping_mul(0x7FEB_352D);
    let b = (a ^ (a >> 15)).wrapping_mul(0x846C_A68B);
    b ^ (b >> 16)
}

fn content_key_host(row: &[f32]) -> u32 {
    let of = |(h, value): (usize, &f32)| {
        let bits = match value.abs().to_bits() {
            magnitude if magnitude < SMALLEST_NORMAL => 0,
            magnitude if magnitude > INFINITY => 0x7FC0_0000,
            _ => value.to_bits(),
        };
        mix_host(bits.wrapping_add(PHI.wrapping_mul(h as u32)))
    };
    row.iter().enumerate().map(of).fold(0, u32::wrapping_add)
}

/// The oracle, exact: indices and weights \[T,K\]; `x` \[T,H\] holds the numbers of the tokens where
/// they are hashed.
pub fn hash_reference(
    problem: &HashProblem,
    seed: u32,
    x: &[f32],
    mask: Option<&[bool]>,
) -> (Vec<u32>, Vec<f32>) {
    let Problem {
        tokens,
        experts,
        top_k,
        ..
    } = problem.routing;
    let available = |e: &u32| mask.is_none_or(|mask| mask[*e as usize]);
    let (mut indices, mut weights) = (Vec::new(), Vec::new());
    for token in 0..tokens {
        let key = match problem.key {
            HashKey::Position { sequence } => (token % sequence) as u32,
            HashKey::Content { hidden, .. } => content_key_host(&x[token * hidden..][..hidden]),
        };
        let mut state = mix_host(key ^ mix_host(seed));
        let mut left: Vec<u32> = (0..experts as u32).filter(available).collect();
        for _ in 0..top_k {
            if left.is_empty() {
                indices.push(experts as u32);
                weights.push(0.0);
                continue;
            }
            state = mix_host(state.wrapping_add(PHI));
            indices.push(left.remove(state as usize % left.len()));
            weights.push(1.0 / top_k as f32);
        }
    }
    (indices, weights)
}

/// Both keys, of every element type, and a mask.
#[cfg(feature = "emit")]
pub(super) fn entries() -> Vec<crate::emit::KernelEntry> {
    use crate::emit::{KernelEntry, Machine, Planned, buffer};
    let content = Element::ALL.map(|element| {
        let key = HashKey::Content {
            hidden: 512,
            element,
        };
        (key, false)
    });
    let position = [false, true].map(|masked| (HashKey::Position { sequence: 128 }, masked));
    let entry = |(key, masked): (HashKey, bool)| {
        let build = move |at: &Machine| -> Planned {
            let problem = HashProblem::new(Problem::new(1024, 8, 2)?, key)?;
            let plan = plan_hash(problem, &at.capability)?;
            let (settings, device, target) = at.parts(plan.grid.dim());
            Ok(Box::new(hash_route::HashRoute::new(
                settings,
                device,
                target,
                super::optional_argument(problem.hidden() > 0),
                super::optional_argument(masked),
                buffer(),
                buffer(),
                (),
                (),
                (),
                (),
                plan.lanes,
                problem.routing.top_k,
                problem.element().elem_type(),
            )))
        };
        let entry = KernelEntry::new(("routing", "hash"), name(key, masked), build);
        match key {
            HashKey::Position { .. } => entry,
            HashKey::Content { element, .. } => entry.of(element),
        }
    };
    content.into_iter().chain(position).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(experts: usize, top_k: usize, mask: Option<&[bool]>) -> Vec<u32> {
        let routing = Problem::new(4096, experts, top_k).unwrap();
        let problem = HashProblem::new(routing, HashKey::Position { sequence: 4096 }).unwrap();
        hash_reference(&problem, 7, &[], mask).0
    }

    #[test]
    fn choices_are_distinct_available_and_even() {
        let mask: Vec<bool> = (0..10).map(|e| e % 5 != 3).collect();
        let indices = choose(10, 3, Some(&mask));
        let mut load = [0; 10];
        for row in indices.chunks(3) {
            assert!(row[0] != row[1] && row[0] != row[2] && row[1] != row[2]);
            row.iter().for_each(|e| load[*e as usize] += 1);
        }
        for (load, available) in load.iter().zip(&mask) {
            // Binomial with mean 1536 and deviation 31.
            let range = if *available {
                1536 - 155..1536 + 155
            } else {
                0..1
            };
            assert!(range.contains(load), "{load}");
        }
    }

    #[test]
    fn too_few_experts_leave_slots_empty() {
        let indices = choose(4, 3, Some(&[false, true, false, true]));
        for row in indices.chunks(3) {
            assert!(row[0] != row[1] && row[0] % 2 == 1 && row[1] % 2 == 1);
            assert_eq!(row[2], 4);
        }
    }

    #[test]
    fn equal_numbers_hash_alike_and_places_matter() {
        let key = |row: &[f32]| content_key_host(row);
        assert_eq!(key(&[1.0, 0.0, f32::NAN]), key(&[1.0, -0.0, -f32::NAN]));
        assert_ne!(key(&[1.0, 2.0]), key(&[2.0, 1.0]));
        assert_ne!(key(&[1.0]), key(&[-1.0]));
    }

    #[test]
    fn sizes_are_checked() {
        let routing = Problem::new(4, 4, 1).unwrap();
        assert!(HashProblem::new(routing, HashKey::Position { sequence: 0 }).is_err());
        let content = |hidden| HashKey::Content {
            hidden,
            element: Element::F32,
        };
        assert!(HashProblem::new(routing, content(0)).is_err());
        assert!(HashProblem::new(routing, content(1 << 30)).is_err());
    }
}
