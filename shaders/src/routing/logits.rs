//! Router logits: logits\[t,e\] = Σ_h x\[t,h\] · w\[e,h\] in f32, whatever the dtype of x and w.
//!
//! Lane l of L sums h = l, l + L, … with fused multiply-adds; then the lanes are summed. L depends on
//! the device and H alone, so a token's logits depend on neither its neighbours nor the tile they
//! are computed in.
//!
//! On a CPU a unit holds a tile of tokens × experts in registers, and L is the vector width. On a GPU
//! [`SPLIT`] units share such a tile: neighbours load neighbouring vectors of a row, and a
//! single token still occupies [`SPLIT`] units per tile of experts.
//!
//! FLOPs 2·T·E·H; bytes (T·H + E·H) elements read, 4·T·E written.

use super::Problem;
use crate::element::Element;
use crate::error::Unsupported;
use crate::grid::{Grid, lanes};
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::Capability;

/// Units that share a tile on a GPU.
const SPLIT: usize = 32;
/// Tiles of neighbouring experts in a cube, at most.
const TILES: usize = 4;

/// Tokens and experts whose sums one unit holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tile {
    pub(super) tokens: usize,
    pub(super) experts: usize,
}

impl Tile {
    /// 4 × 4 sums and 5 operands fit the 32 registers of AVX-512 and NEON (4096 tokens, 64
    /// experts, 1024 columns on 2 Zen 5 cores: 1.8 ms; 6 × 4, 8 × 2 and 8 × 3 took 4.9, 3.0 and
    /// 2.7); 4 × 2 and 3 fit 16 registers.
    fn cpu(registers: u32) -> Self {
        Self {
            tokens: 4,
            experts: if registers < 32 { 2 } else { 4 },
        }
    }

    fn gpu(problem: &Problem) -> Self {
        Self {
            tokens: if problem.tokens < 4 { 1 } else { 4 },
            experts: 4,
        }
    }

    fn sums(&self) -> usize {
        self.tokens * self.experts
    }
}

/// How the logits are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    /// One unit per tile.
    Cpu(Grid),
    /// [`SPLIT`] units per tile, this many tiles of experts per cube.
    Split(usize),
}

/// Router logits this device can compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogitsPlan {
    problem: Problem,
    hidden: usize,
    element: Element,
    lanes: usize,
    tile: Tile,
    variant: Variant,
}

/// Plans the logits of x \[T,`hidden`\].
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, or more than a binding or a grid holds.
pub fn plan_logits(
    problem: Problem,
    hidden: usize,
    element: Element,
    device: &Capability,
) -> Result<LogitsPlan, Unsupported> {
    element.supported("router_logits", device)?;
    for bytes in [
        problem.tokens * hidden * element.bytes(),
        problem.experts * hidden * element.bytes(),
        problem.tokens * problem.experts * 4,
    ] {
        crate::fits_binding("router_logits", bytes, device)?;
    }
    let (tile, variant) = if device.cpu_cores.is_some() {
        let tile = Tile::cpu(device.vector_registers.unwrap_or(16));
        let tiles = problem.tokens.div_ceil(tile.tokens) * problem.experts.div_ceil(tile.experts);
        let grid = Grid::elementwise("router_logits", tiles, device)?;
        (tile, Variant::Cpu(grid))
    } else {
        let tile = Tile::gpu(&problem);
        (tile, split(&problem, tile, device)?)
    };
    Ok(LogitsPlan {
        problem,
        hidden,
        element,
        // The sums are f32: a register of 16-bit elements would fill two.
        lanes: lanes(hidden, 4, device),
        tile,
        variant,
    })
}

/// The split variant, if its cubes fit the device.
fn split(problem: &Problem, tile: Tile, device: &Capability) -> Result<Variant, Unsupported> {
    let limits = &device.limits;
    let tiles = problem.experts.div_ceil(tile.experts).min(TILES);
    let cubes = cubes(problem, tile, tiles);
    let memory = shared_len(tile, tiles) * 4;
    let [x, y, _] = limits.max_cube_count.map(|most| most as usize);
    if tiles * SPLIT > limits.max_units_per_cube as usize
        || memory > limits.max_shared_memory
        || cubes[0] > x
        || cubes[1] > y
    {
        let needs = format!(
            "{} units, {memory} bytes of workgroup memory, {} x {} cubes",
            tiles * SPLIT,
            cubes[0],
            cubes[1]
        );
        let have = format!(
            "{}, {} and {x} x {y}",
            limits.max_units_per_cube, limits.max_shared_memory
        );
        return Err(Unsupported::new("router_logits", needs, have));
    }
    Ok(Variant::Split(tiles))
}

/// Cubes along experts and tokens.
fn cubes(problem: &Problem, tile: Tile, tiles: usize) -> [usize; 2] {
    [
        problem.experts.div_ceil(tile.experts * tiles),
        problem.tokens.div_ceil(tile.tokens),
    ]
}

/// Words of workgroup memory; a row of sums is padded so that rows start in different banks.
const fn shared_len(tile: Tile, tiles: usize) -> usize {
    tiles * tile.tokens * tile.experts * (SPLIT + 1)
}

/// Sums of a tile over the vectors `at.2`, `at.2 + step`, … of a row; rows past the last repeat it.
#[cube]
fn tile_sums<F: Float, N: Size>(
    x: &[Vector<F, N>],
    w: &[Vector<F, N>],
    size: (usize, usize, usize),
    at: (usize, usize, usize),
    step: usize,
    #[comptime] tile: Tile,
) -> Array<Vector<f32, N>> {
    let (tokens, experts, row) = size;
    let (token, expert, start) = at;
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

/// One unit per tile.
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
        let size = (tokens, experts, row);
        let at = (token, expert, 0usize.runtime());
        let sums = tile_sums::<F, N>(x, w, size, at, 1usize.runtime(), tile);
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

/// [`SPLIT`] units along x per tile; a cube's tiles lie along y, and are of neighbouring experts.
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
    let of_tile = UNIT_POS_Y as usize;
    let token = CUBE_POS_Y as usize * comptime!(tile.tokens);
    let expert = (CUBE_POS_X as usize * tiles + of_tile) * comptime!(tile.experts);
    let mut partial = Shared::<[f32]>::new_slice(comptime!(shared_len(tile, tiles)));
    let size = (tokens, experts, row);
    let at = (token, expert, unit);
    let sums = tile_sums::<F, N>(x, w, size, at, comptime!(SPLIT).runtime(), tile);
    let base = of_tile * comptime!(tile.sums());
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
    let Problem {
        tokens, experts, ..
    } = plan.problem;
    if tokens == 0 {
        return;
    }
    let row = plan.hidden / plan.lanes;
    // SAFETY: the caller's buffers have the planned shapes; rows past the last are neither read
    // nor stored.
    unsafe {
        let x = BufferArg::from_raw_parts(x, tokens * row);
        let w = BufferArg::from_raw_parts(w, experts * row);
        let logits = BufferArg::from_raw_parts(logits, tokens * experts);
        let element = plan.element.elem_type();
        match plan.variant {
            Variant::Cpu(grid) => router_logits_cpu::launch_unchecked(
                client,
                grid.count(),
                grid.dim(),
                plan.lanes,
                x,
                w,
                logits,
                tokens,
                experts,
                row,
                plan.tile,
                element,
            ),
            Variant::Split(tiles) => {
                let [along_x, along_y] = cubes(&plan.problem, plan.tile, tiles);
                router_logits::launch_unchecked(
                    client,
                    CubeCount::Static(along_x as u32, along_y as u32, 1),
                    CubeDim::new_2d(SPLIT as u32, tiles as u32),
                    plan.lanes,
                    x,
                    w,
                    logits,
                    tokens,
                    experts,
                    row,
                    plan.tile,
                    tiles,
                    element,
                );
            }
        }
    }
}

/// The oracle, in f64: logits \[T,E\] of x \[T,H\] and w \[E,H\].
pub fn logits_reference(x: &[f32], w: &[f32], hidden: usize) -> Vec<f64> {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
        products.sum()
    };
    x.chunks(hidden)
        .flat_map(|token| w.chunks(hidden).map(move |expert| dot(token, expert)))
        .collect()
}

/// Router logits of every element type.
#[cfg(feature = "emit")]
pub(super) fn entries() -> [crate::emit::KernelEntry; 3] {
    use crate::emit::{KernelEntry, Machine, Planned, buffer};
    Element::ALL.map(|element| {
        let build = move |at: &Machine| -> Planned {
            let plan = plan_logits(Problem::new(1024, 8, 2)?, 512, element, &at.capability)?;
            let Variant::Split(tiles) = plan.variant else {
                unreachable!("no target is a CPU runtime");
            };
            let dim = CubeDim::new_2d(SPLIT as u32, tiles as u32);
            let (settings, device, target) = at.parts(dim);
            Ok(Box::new(router_logits::RouterLogits::new(
                settings,
                device,
                target,
                buffer(),
                buffer(),
                buffer(),
                (),
                (),
                (),
                plan.lanes,
                plan.tile,
                tiles,
                element.elem_type(),
            )))
        };
        let name = format!("router_logits_{element}");
        KernelEntry::new(("routing", "logits"), name, build).of(element)
    })
}
