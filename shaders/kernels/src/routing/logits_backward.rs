//! How CubeCL computes [`moebius_ops::routing::logits_backward_reference`].
//!
//! dx is summed over e in order. dw is summed over the tokens of each block in order, and then over the blocks, whose number
//! depends on the device and the shapes; it takes two launches, or one if there is a single block. All sums use fused
//! multiply-adds in f32.

use super::Problem;
use crate::prelude::*;
use crate::rounds::{fits_rounds, looped};
use cubecl::prelude::*;

const KERNEL: &str = "router_logits_backward";

/// The number of units that fill a large GPU.
const FILL: usize = 1 << 15;

/// Tokens per block on a CPU, whose columns stay in a core's cache while all experts read them (4096 tokens, 64 experts, 1024
/// columns on 2 Zen 5 cores: 2.5 ms; 3.1 ms in blocks of 128, 3.4 ms in one block).
const CPU_BLOCK: usize = 256;

/// The largest number of sums over all blocks: 32 MiB of f32.
const MOST_SUMS: usize = 1 << 23;

/// The rows (tokens of dx, experts of dw) and vectors of columns whose sums one unit holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tile {
    rows: usize,
    columns: usize,
}

impl Tile {
    /// The tile for `device`; on a GPU one vector of columns, so that neighbouring units load neighbouring vectors.
    fn of(device: &Capability) -> Self {
        let columns = match device.vector_registers {
            _ if device.cpu_cores.is_none() => 1,
            Some(registers) if registers >= 32 => 4,
            _ => 2,
        };
        Self { rows: 4, columns }
    }

    fn sums(&self) -> usize {
        self.rows * self.columns
    }
}

/// The gradients of the router logits, planned for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogitsBackwardPlan {
    problem: Problem,
    hidden: usize,
    element: Element,
    lanes: usize,
    tile: Tile,
    /// The number of blocks of tokens, and of tokens per block.
    blocks: usize,
    block: usize,
    /// Whether neighbouring units of dw take neighbouring experts, which share a CPU's cache, or
    /// neighbouring vectors, which a GPU loads together.
    experts_first: bool,
    dx: Grid,
    partial: Grid,
    sum: Grid,
}

/// Plans both gradients for x \[T,`hidden`\].
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, and for more than a binding or a grid holds.
pub fn plan_logits_backward(
    problem: Problem,
    hidden: usize,
    element: Element,
    device: &Capability,
) -> Result<LogitsBackwardPlan, Unsupported> {
    element.supported(KERNEL, device)?;
    let lanes = lanes(hidden, 4, device);
    let row = hidden / lanes;
    let tile = Tile::of(device);
    let (rows, columns) = (
        problem.experts().div_ceil(tile.rows),
        row.div_ceil(tile.columns),
    );
    let tiles = (rows * columns).max(1);
    let blocks = match device.cpu_cores {
        Some(_) => problem.tokens() / CPU_BLOCK,
        None => FILL / tiles,
    };
    let most = MOST_SUMS / (problem.experts() * hidden).max(1);
    // A unit sums the tokens of a block in one loop; short blocks cost memory alone.
    let shortest = rounds_of_loop(device).map_or(1, |most| problem.tokens().div_ceil(most));
    let blocks = blocks.min(most).max(shortest);
    let block = problem.tokens().div_ceil(blocks.max(1)).max(1);
    let blocks = problem.tokens().div_ceil(block);
    for bytes in [
        problem.tokens() * hidden * element.bytes(),
        problem.experts() * hidden * element.bytes(),
        problem.tokens() * problem.experts() * 4,
        blocks * problem.experts() * hidden * 4,
    ] {
        crate::fits_binding(KERNEL, bytes, device)?;
    }
    let longest = problem.experts().max(block).max(blocks);
    fits_rounds(KERNEL, looped(longest, 0), device)?;
    let tokens = problem.tokens().div_ceil(tile.rows);
    Ok(LogitsBackwardPlan {
        problem,
        hidden,
        element,
        lanes,
        tile,
        blocks,
        block,
        experts_first: device.cpu_cores.is_some(),
        dx: Grid::elementwise(KERNEL, tokens * columns, device)?,
        partial: Grid::elementwise(KERNEL, blocks * tiles, device)?,
        sum: Grid::elementwise(KERNEL, problem.experts() * row, device)?,
    })
}

/// The longest loop that the device doesn't end early, if it ends any.
fn rounds_of_loop(device: &Capability) -> Option<usize> {
    let most = device.loop_rounds?;
    Some((most as usize).saturating_sub(1).max(1))
}

/// A register tile of zeros.
#[cube]
fn zeros<N: Size>(#[comptime] tile: Tile) -> Array<Vector<f32, N>> {
    let mut sums = Array::<Vector<f32, N>>::new(comptime!(tile.sums()));
    #[unroll]
    for i in 0..comptime!(tile.sums()) {
        sums[i] = Vector::new(0.0f32);
    }
    sums
}

/// sums\[m\]\[n\] += factors\[m\] · vectors\[start + column + n\], in a row of `row` vectors; columns past the end repeat the
/// last.
#[cube]
fn add_products<F: Float, N: Size>(
    sums: &mut Array<Vector<f32, N>>,
    factors: &Array<Vector<f32, N>>,
    vectors: &[Vector<F, N>],
    start: usize,
    column: usize,
    row: usize,
    #[comptime] tile: Tile,
) {
    #[unroll]
    for n in 0..comptime!(tile.columns) {
        let b = Vector::<f32, N>::cast_from(vectors[start + min(column + n, row - 1)]);
        #[unroll]
        for m in 0..comptime!(tile.rows) {
            let i = comptime!(m * tile.columns + n);
            sums[i] = fma(factors[m], b, sums[i]);
        }
    }
}

/// Stores the part of a register tile that lies inside a matrix of `rows` rows of `row` vectors, whose row 0 is row `base` of
/// `out`. The tile starts at row `first` and vector `column` of the matrix.
#[cube]
fn store_tile<F: Float, N: Size>(
    out: &mut [Vector<F, N>],
    sums: &Array<Vector<f32, N>>,
    rows: usize,
    row: usize,
    base: usize,
    first: usize,
    column: usize,
    #[comptime] tile: Tile,
) {
    #[unroll]
    for i in 0..comptime!(tile.sums()) {
        let r = first + comptime!(i / tile.columns);
        let c = column + comptime!(i % tile.columns);
        if r < rows && c < row {
            out[(base + r) * row + c] = Vector::cast_from(sums[i]);
        }
    }
}

/// Computes dx; one unit per tile.
#[cube(launch_unchecked)]
fn router_dx<F: Float, N: Size>(
    dlogits: &[f32],
    w: &[Vector<F, N>],
    dx: &mut [Vector<F, N>],
    tokens: usize,
    experts: usize,
    row: usize,
    #[comptime] tile: Tile,
    #[define(F)] _element: ElemType,
) {
    let across = row.div_ceil(comptime!(tile.columns));
    let token = ABSOLUTE_POS / across * comptime!(tile.rows);
    let column = ABSOLUTE_POS % across * comptime!(tile.columns);
    if token < tokens {
        let mut from = Array::<usize>::new(comptime!(tile.rows));
        #[unroll]
        for m in 0..comptime!(tile.rows) {
            from[m] = min(token + m, tokens - 1) * experts;
        }
        let mut sums = zeros::<N>(tile);
        for e in 0..experts {
            let mut factors = Array::<Vector<f32, N>>::new(comptime!(tile.rows));
            #[unroll]
            for m in 0..comptime!(tile.rows) {
                factors[m] = Vector::new(dlogits[from[m] + e]);
            }
            add_products::<F, N>(&mut sums, &factors, w, e * row, column, row, tile);
        }
        let base = 0usize.runtime();
        store_tile::<F, N>(dx, &sums, tokens, row, base, token, column, tile);
    }
}

/// Computes partial\[block, e\] = Σ_t dl\[t,e\] · x\[t\] over the tokens of a block; one unit per tile of dw and block.
#[cube(launch_unchecked)]
fn router_dw<F: Float, N: Size>(
    dlogits: &[f32],
    x: &[Vector<F, N>],
    partial: &mut [Vector<f32, N>],
    tokens: usize,
    experts: usize,
    row: usize,
    block: usize,
    #[comptime] tile: Tile,
    #[comptime] experts_first: bool,
    #[define(F)] _element: ElemType,
) {
    let across = row.div_ceil(comptime!(tile.columns));
    let down = experts.div_ceil(comptime!(tile.rows));
    let of = ABSOLUTE_POS / (across * down);
    let rest = ABSOLUTE_POS % (across * down);
    let (expert, column) = if comptime!(experts_first) {
        (rest % down, rest / down)
    } else {
        (rest / across, rest % across)
    };
    let expert = expert * comptime!(tile.rows);
    let column = column * comptime!(tile.columns);
    let first = of * block;
    if first < tokens {
        let mut sums = zeros::<N>(tile);
        for t in first..min(first + block, tokens) {
            let mut factors = Array::<Vector<f32, N>>::new(comptime!(tile.rows));
            #[unroll]
            for m in 0..comptime!(tile.rows) {
                factors[m] = Vector::new(dlogits[t * experts + min(expert + m, experts - 1)]);
            }
            add_products::<F, N>(&mut sums, &factors, x, t * row, column, row, tile);
        }
        let base = of * experts;
        store_tile::<f32, N>(partial, &sums, experts, row, base, expert, column, tile);
    }
}

/// Computes dw, the sum of `partial` over the blocks in order.
#[cube(launch_unchecked)]
fn router_dw_sum<N: Size>(partial: &[Vector<f32, N>], dw: &mut [Vector<f32, N>], blocks: usize) {
    if ABSOLUTE_POS < dw.len() {
        let mut sum = Vector::<f32, N>::new(0.0f32);
        for of in 0..blocks {
            sum += partial[of * dw.len() + ABSOLUTE_POS];
        }
        dw[ABSOLUTE_POS] = sum;
    }
}

buffers! {
    /// Buffers of the gradients; a gradient without a buffer isn't computed.
    pub struct LogitsBackwardBuffers {
        pub dlogits: Handle => "[T,E] f32" read,
        pub x: Handle => "[T,H]" read,
        pub w: Handle = "Wg" => "[E,H]" read,
        pub dx: Option<Handle> => "[T,H]" written,
        pub dw: Option<Handle> = "dWg" => "[E,H] f32" written: "zeros without tokens",
    }
}

/// Enqueues the gradients: one launch for dx, at most two for dw.
pub fn launch_logits_backward(
    client: &Client,
    plan: &LogitsBackwardPlan,
    buffers: LogitsBackwardBuffers,
) {
    let (tokens, experts, lanes) = (plan.problem.tokens(), plan.problem.experts(), plan.lanes);
    let (row, tile, element) = (plan.hidden / lanes, plan.tile, plan.element.elem_type());
    if plan.hidden == 0 {
        return;
    }
    let dlogits = || bind(buffers.dlogits.clone());
    if let Some(dx) = buffers.dx
        && tokens > 0
    {
        let (count, dim, dl) = (plan.dx.count(), plan.dx.dim(), dlogits());
        let [w, dx] = [buffers.w, dx].map(bind);
        launched::note(|| format!("router_dx_{}", plan.element));
        // SAFETY: the buffers are as long as they are described; rows and vectors past the last are neither read nor stored.
        unsafe {
            router_dx::launch_unchecked(
                client, count, dim, lanes, dl, w, dx, tokens, experts, row, tile, element,
            );
        }
    }
    let Some(dw) = buffers.dw else { return };
    let (blocks, len) = (plan.blocks, experts * row);
    // With a single block, its sums are the result.
    let sums = match blocks {
        1 => dw.clone(),
        _ => empty_words(client, (blocks * len).max(1) * lanes),
    };
    if blocks > 0 {
        let (count, dim, dl) = (plan.partial.count(), plan.partial.dim(), dlogits());
        let (x, sums) = (bind(buffers.x), bind(sums.clone()));
        let (block, first) = (plan.block, plan.experts_first);
        launched::note(|| format!("router_dw_{}", plan.element));
        // SAFETY: as above, and `sums` holds a matrix for every block.
        unsafe {
            router_dw::launch_unchecked(
                client, count, dim, lanes, dl, x, sums, tokens, experts, row, block, tile, first,
                element,
            );
        }
    }
    if blocks != 1 {
        let (count, dim) = (plan.sum.count(), plan.sum.dim());
        let [sums, dw] = [sums, dw].map(bind);
        launched::note(|| "router_dw_sum");
        // SAFETY: `sums` holds a matrix for every block, and `dw` is as long as it is described.
        unsafe { router_dw_sum::launch_unchecked(client, count, dim, lanes, sums, dw, blocks) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use moebius_profiles as profiles;

    #[test]
    fn blocks_cover_the_tokens_and_stay_small() {
        for device in [profiles::webgpu_default(), profiles::h100()] {
            for (tokens, experts, hidden) in
                [(0, 8, 64), (1, 8, 64), (5000, 64, 1024), (4096, 256, 7168)]
            {
                let problem = Problem::new(tokens, experts, 1).unwrap();
                let plan = plan_logits_backward(problem, hidden, Element::F32, &device).unwrap();
                assert!(plan.blocks * plan.block >= tokens);
                assert!(plan.blocks.saturating_sub(1) * plan.block <= tokens);
                let sums = plan.blocks * experts * hidden;
                assert!(plan.blocks <= 1 || sums <= MOST_SUMS);
            }
        }
    }
}
