//! How CubeCL computes [`moebius_ops::routing::logits_reference`].
//!
//! Lane l of L sums h = l, l + L, … with fused multiply-adds; then the lanes are summed. L depends only on the device and H, so a
//! token's logits depend neither on its neighbours nor on the tile they are computed in.
//!
//! On a CPU a unit holds a tile of tokens × experts in registers, and L is the vector width. On a GPU [`SPLIT`] units share such
//! a tile: neighbouring units load neighbouring vectors of a row, and even a single token occupies [`SPLIT`] units per tile of
//! experts.

use super::Problem;
use crate::prelude::*;
use crate::rounds::{fits_rounds, looped};
use cubecl::prelude::*;

const KERNEL: &str = "router_logits";

/// Units that share a tile on a GPU.
const SPLIT: usize = 32;

/// The largest number of tiles of neighbouring experts per cube.
const TILES: usize = 4;

/// The tokens and experts whose sums one unit holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tile {
    tokens: usize,
    experts: usize,
}

impl Tile {
    /// The tile for `device`. On a CPU, 4 × 4 sums and 5 operands fit the 32 registers of AVX-512 and NEON (4096 tokens, 64
    /// experts, 1024 columns on 2 Zen 5 cores: 1.8 ms; 6 × 4, 8 × 2 and 8 × 3 took 4.9, 3.0 and 2.7 ms); 4 × 2 and 5 fit 16
    /// registers.
    fn of(problem: &Problem, device: &Capability) -> Self {
        let (tokens, experts) = match device.vector_registers {
            _ if device.cpu_cores.is_none() && problem.tokens() < 4 => (1, 4),
            _ if device.cpu_cores.is_none() => (4, 4),
            Some(registers) if registers >= 32 => (4, 4),
            _ => (4, 2),
        };
        Self { tokens, experts }
    }

    fn sums(&self) -> usize {
        self.tokens * self.experts
    }
}

/// How the logits are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    /// One unit per tile.
    Cpu,
    /// [`SPLIT`] units per tile, this many tiles per cube.
    Split(usize),
}

/// Router logits, planned for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogitsPlan {
    problem: Problem,
    hidden: usize,
    element: Element,
    lanes: usize,
    tile: Tile,
    variant: Variant,
    grid: Grid,
}

/// Plans the logits of x \[T,`hidden`\].
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, and for more than a binding or a grid holds.
pub fn plan_logits(
    problem: Problem,
    hidden: usize,
    element: Element,
    device: &Capability,
) -> Result<LogitsPlan, Unsupported> {
    element.supported(KERNEL, device)?;
    for bytes in [
        problem.tokens() * hidden * element.bytes(),
        problem.experts() * hidden * element.bytes(),
        problem.tokens() * problem.experts() * 4,
    ] {
        crate::fits_binding(KERNEL, bytes, device)?;
    }
    let tile = Tile::of(&problem, device);
    let tokens = problem.tokens().div_ceil(tile.tokens);
    let experts = problem.experts().div_ceil(tile.experts);
    let (variant, grid) = if device.cpu_cores.is_some() {
        let grid = Grid::elementwise(KERNEL, tokens * experts, device)?;
        (Variant::Cpu, grid)
    } else {
        let tiles = split(experts, tile, device)?;
        let cubes = tokens * experts.div_ceil(tiles);
        let units = [SPLIT as u32, tiles as u32];
        let grid = Grid::of_cubes(KERNEL, cubes, units, device)?;
        let vectors = hidden / lanes(hidden, 4, device);
        let rounds = looped(vectors.div_ceil(SPLIT), 0) + looped(SPLIT, 0);
        fits_rounds(KERNEL, rounds, device)?;
        (Variant::Split(tiles), grid)
    };
    Ok(LogitsPlan {
        problem,
        hidden,
        element,
        // Sums are f32: a register of 16-bit elements would fill two registers of sums.
        lanes: lanes(hidden, 4, device),
        tile,
        variant,
        grid,
    })
}

/// Tiles per cube of the split variant, if the device can run it.
fn split(experts: usize, tile: Tile, device: &Capability) -> Result<usize, Unsupported> {
    let tiles = experts.min(TILES);
    let memory = shared_len(tile, tiles) * 4;
    crate::fits_cube(KERNEL, (tiles * SPLIT) as u32, memory, device)?;
    Ok(tiles)
}

/// The number of words of workgroup memory; each row of sums is padded so that rows start in different banks.
const fn shared_len(tile: Tile, tiles: usize) -> usize {
    tiles * tile.tokens * tile.experts * (SPLIT + 1)
}

/// The sums of a tile over the vectors `start`, `start + step`, … of each row; rows past the last repeat the last.
#[cube]
fn tile_sums<F: Float, N: Size>(
    x: &[Vector<F, N>],
    w: &[Vector<F, N>],
    tokens: usize,
    experts: usize,
    row: usize,
    token: usize,
    expert: usize,
    start: usize,
    step: usize,
    #[comptime] tile: Tile,
) -> Array<Vector<f32, N>> {
    let mut from_x = Array::<usize>::new(comptime!(tile.tokens));
    let mut from_w = Array::<usize>::new(comptime!(tile.experts));
    let mut sums = Array::<Vector<f32, N>>::new(comptime!(tile.sums()));
    #[unroll]
    for m in 0..comptime!(tile.tokens) {
        from_x[m] = min(token + m, tokens - 1) * row;
    }
    #[unroll]
    for n in 0..comptime!(tile.experts) {
        from_w[n] = min(expert + n, experts - 1) * row;
    }
    #[unroll]
    for i in 0..comptime!(tile.sums()) {
        sums[i] = Vector::new(0.0f32);
    }
    for i in range_stepped(start, row, step) {
        let mut a = Array::<Vector<f32, N>>::new(comptime!(tile.tokens));
        #[unroll]
        for m in 0..comptime!(tile.tokens) {
            a[m] = Vector::cast_from(x[from_x[m] + i]);
        }
        #[unroll]
        for n in 0..comptime!(tile.experts) {
            let b = Vector::<f32, N>::cast_from(w[from_w[n] + i]);
            #[unroll]
            for m in 0..comptime!(tile.tokens) {
                let at = comptime!(m * tile.experts + n);
                sums[at] = fma(a[m], b, sums[at]);
            }
        }
    }
    sums
}

/// Computes logits on a CPU; one unit per tile.
#[cube(launch_unchecked)]
fn router_logits_cpu<F: Float, N: Size>(
    x: &[Vector<F, N>],
    w: &[Vector<F, N>],
    logits: &mut [f32],
    tokens: usize,
    experts: usize,
    row: usize,
    #[comptime] tile: Tile,
    #[define(F)] _element: ElemType,
) {
    let across = experts.div_ceil(comptime!(tile.experts));
    let token = ABSOLUTE_POS / across * comptime!(tile.tokens);
    let expert = ABSOLUTE_POS % across * comptime!(tile.experts);
    if token < tokens {
        let (start, step) = (0usize.runtime(), 1usize.runtime());
        let sums = tile_sums::<F, N>(x, w, tokens, experts, row, token, expert, start, step, tile);
        #[unroll]
        for i in 0..comptime!(tile.sums()) {
            let t = token + comptime!(i / tile.experts);
            let e = expert + comptime!(i % tile.experts);
            if t < tokens && e < experts {
                logits[t * experts + e] = sums[i].vector_sum();
            }
        }
    }
}

/// Computes logits; [`SPLIT`] units along x per tile. The tiles of a cube, along y, have neighbouring experts.
#[cube(launch_unchecked)]
fn router_logits<F: Float, N: Size>(
    x: &[Vector<F, N>],
    w: &[Vector<F, N>],
    logits: &mut [f32],
    tokens: usize,
    experts: usize,
    row: usize,
    #[comptime] tile: Tile,
    #[comptime] tiles: usize,
    #[define(F)] _element: ElemType,
) {
    let unit = UNIT_POS_X as usize;
    let of_cube = UNIT_POS_Y as usize;
    let across = experts.div_ceil(comptime!(tile.experts * tiles));
    // Tiles past the last token or expert repeat the last row, so that their units reach the barrier.
    let token = CUBE_POS / across * comptime!(tile.tokens);
    let expert = (CUBE_POS % across * tiles + of_cube) * comptime!(tile.experts);
    let mut partial = Shared::<[f32]>::new_slice(comptime!(shared_len(tile, tiles)));
    let step = comptime!(SPLIT).runtime();
    let sums = tile_sums::<F, N>(x, w, tokens, experts, row, token, expert, unit, step, tile);
    let base = of_cube * comptime!(tile.sums());
    #[unroll]
    for i in 0..comptime!(tile.sums()) {
        partial[(base + i) * comptime!(SPLIT + 1) + unit] = sums[i].vector_sum();
    }
    sync_cube();
    if unit < comptime!(tile.sums()) {
        let t = token + unit / comptime!(tile.experts);
        let e = expert + unit % comptime!(tile.experts);
        let first = (base + unit) * comptime!(SPLIT + 1);
        let mut sum = partial[first];
        for i in 1..comptime!(SPLIT) {
            sum += partial[first + i];
        }
        if t < tokens && e < experts {
            logits[t * experts + e] = sum;
        }
    }
}

/// Enqueues logits = x · Wgᵀ.
pub fn launch_logits(client: &Client, plan: &LogitsPlan, x: Handle, w: Handle, logits: Handle) {
    let (tokens, experts) = (plan.problem.tokens(), plan.problem.experts());
    if tokens == 0 {
        return;
    }
    let (row, count, dim) = (plan.hidden / plan.lanes, plan.grid.count(), plan.grid.dim());
    launched::note(|| format!("router_logits_{}", plan.element));
    let ([x, w, logits], element) = ([x, w, logits].map(bind), plan.element.elem_type());
    // SAFETY: the buffers are as long as they are described; rows past the last are neither read nor stored.
    unsafe {
        match plan.variant {
            Variant::Cpu => router_logits_cpu::launch_unchecked(
                client, count, dim, plan.lanes, x, w, logits, tokens, experts, row, plan.tile,
                element,
            ),
            Variant::Split(tiles) => router_logits::launch_unchecked(
                client, count, dim, plan.lanes, x, w, logits, tokens, experts, row, plan.tile,
                tiles, element,
            ),
        }
    }
}

#[cfg(test)]
#[path = "logits_tests.rs"]
mod tests;
