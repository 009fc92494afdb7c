//! Largest finite magnitudes of a tensor, or of every block of a [`super::Problem`].
//!
//! A row of units (on a CPU: one unit) reduces a part of a block; if blocks have several parts, a second launch reduces these.
//! Bytes: x once.

use super::word::{bits_of, magnitude, scale_of};
use crate::prelude::*;
use crate::rounds::{fits_rounds, looped};
use cubecl::prelude::*;
use moebius_ops::fp8::{Fp8Format, LANES_PER_WORD};
use moebius_ops::quantize::AmaxProblem;
use moebius_ops::scaling::{Granularity, ScaleType};

const KERNEL: &str = "fp8_amax";

/// The largest number of units of a cube: WebGPU's default.
pub(super) const UNITS: u32 = 256;

/// The smallest number of vectors of a part: 16 per unit of a cube.
const PART: usize = 4096;

/// The largest number of parts of a block on a GPU, which a cube reduces in a few steps.
const PARTS: usize = 1024;

/// Parts per core of a CPU, enough to balance the load.
const PARTS_PER_CORE: usize = 4;

/// Buffers of the launch with the most: x, words, scales.
const BINDINGS: u32 = 3;

/// Bytes of workgroup memory: a magnitude per unit of a cube, and a word for the E8M0 byte of each block.
const SHARED_BYTES: usize = 4 * (UNITS + UNITS) as usize;

/// The lanes of vectors along a dimension of `len` elements: a word's four values, or a single value.
pub(super) fn lanes_of(len: usize) -> usize {
    if len.is_multiple_of(LANES_PER_WORD) {
        LANES_PER_WORD
    } else {
        1
    }
}

/// Checks that the device has the workgroup memory and the bindings of the reductions.
pub(super) fn fits_cube(device: &Capability) -> Result<(), Unsupported> {
    let limits = &device.limits;
    let (bindings, memory) = (limits.max_bindings, limits.max_shared_memory);
    // A CPU's units share no memory.
    let fits = bindings >= BINDINGS && (memory >= SHARED_BYTES || device.cpu_cores.is_some());
    let needs = format_args!("{BINDINGS} bindings and {SHARED_BYTES} bytes of workgroup memory");
    let have = format_args!("{bindings} and {memory} bytes");
    Unsupported::unless(fits, super::KERNEL, needs, have)
}

/// What a kernel writes for a largest magnitude.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Finish {
    /// The magnitude itself.
    Magnitude,
    /// The f32 scale that follows from the magnitude.
    Scale(Fp8Format),
}

impl Finish {
    pub(super) fn name(self) -> String {
        match self {
            Self::Magnitude => "fp8_amax".to_owned(),
            Self::Scale(format) => format!("fp8_amax_scale_{}", format.name()),
        }
    }
}

/// Blocks of vectors whose largest magnitudes are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    /// Rows and vectors of a matrix.
    pub(super) matrix: [usize; 2],
    /// Rows and vectors of a block.
    pub(super) block: [usize; 2],
    /// Blocks of a matrix, down and across.
    pub(super) blocks: [usize; 2],
    pub(super) matrices: usize,
}

impl Blocks {
    fn total(&self) -> usize {
        self.matrices * self.blocks[0] * self.blocks[1]
    }

    fn vectors(&self) -> usize {
        self.matrices * self.matrix[0] * self.matrix[1]
    }
}

/// A reduction of blocks, planned for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduction {
    pub(super) of: Blocks,
    pub(super) parts: usize,
    /// Vectors per part.
    part: usize,
    lanes: usize,
    element: Element,
    /// Grids with a row of units per part, and with a row of units per block.
    pub(super) of_parts: Grid,
    pub(super) of_blocks: Grid,
}

impl Reduction {
    pub(super) fn plan(
        of: Blocks,
        lanes: usize,
        element: Element,
        device: &Capability,
    ) -> Result<Self, Unsupported> {
        let (blocks, vectors) = (of.total(), of.block[0] * of.block[1]);
        let most = match device.cpu_cores {
            // Blocks are split only if there are too few to use every core.
            Some(cores) => (cores as usize * PARTS_PER_CORE).div_ceil(blocks.max(1)),
            None => PARTS,
        };
        let parts = vectors.div_ceil(PART).clamp(1, most);
        let part = vectors.div_ceil(parts).max(1);
        let grid = |items: usize, vectors: usize| {
            let units = units_for(vectors, device);
            let cubes = items.div_ceil(units[1] as usize);
            Grid::of_cubes(KERNEL, cubes, units, device)
        };
        crate::fits_binding(KERNEL, of.vectors() * lanes * element.bytes(), device)?;
        crate::fits_binding(KERNEL, blocks * parts * 4, device)?;
        let (of_parts, of_blocks) = (grid(blocks * parts, part)?, grid(blocks, parts)?);
        for (vectors, grid) in [(part, of_parts), (parts, of_blocks)] {
            let rounds = looped(vectors.div_ceil(grid.units[0] as usize), 0);
            fits_rounds(KERNEL, rounds, device)?;
        }
        Ok(Self {
            of,
            parts,
            part,
            lanes,
            element,
            of_parts,
            of_blocks,
        })
    }

    fn sizes(&self) -> SizesLaunch {
        let Blocks {
            matrix,
            block,
            blocks,
            ..
        } = self.of;
        SizesLaunch::new(
            matrix[0], matrix[1], block[0], block[1], blocks[0], blocks[1], self.parts, self.part,
        )
    }
}

/// The units along x that share `vectors` vectors, a power of two, and the rows of such units in a cube.
pub(super) fn units_for(vectors: usize, device: &Capability) -> [u32; 2] {
    let most = device.limits.max_units_per_cube.clamp(1, UNITS);
    if let Some(cores) = device.cpu_cores {
        return [1, cores.clamp(1, most)];
    }
    let units = 1 << most.ilog2();
    let x = units.min(vectors.next_power_of_two().min(UNITS as usize) as u32);
    [x, units / x]
}

/// Sizes given at launch, in rows and vectors.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Sizes {
    rows: usize,
    columns: usize,
    block_rows: usize,
    block_columns: usize,
    down: usize,
    across: usize,
    parts: usize,
    part: usize,
}

/// The largest value of the units along x, returned to all of them; `along` is a power of two.
#[cube]
pub(super) fn row_max(value: u32, #[comptime] along: usize, #[comptime] beside: usize) -> u32 {
    if comptime!(along == 1) {
        value
    } else {
        let mut partial = Shared::<[u32]>::new_slice(comptime!(along * beside));
        let unit = UNIT_POS_X as usize;
        let first = UNIT_POS_Y as usize * along;
        partial[first + unit] = value;
        #[unroll]
        for level in 0..comptime!(along.ilog2()) {
            let half = comptime!(along >> (level + 1));
            sync_cube();
            if unit < half {
                let other = partial[first + unit + half];
                partial[first + unit] = max(partial[first + unit], other);
            }
        }
        sync_cube();
        partial[first]
    }
}

#[cube]
fn finished(amax: u32, margin: i32, #[comptime] finish: Finish) -> u32 {
    #[comptime]
    match finish {
        Finish::Magnitude => amax,
        Finish::Scale(format) => scale_of(amax, margin, format, ScaleType::F32),
    }
}

/// Computes out\[block · parts + part\]; one row of units per part.
#[cube(launch_unchecked)]
pub(super) fn fp8_amax_parts<F: Float, N: Size>(
    x: &[Vector<F, N>],
    out: &mut [u32],
    sizes: Sizes,
    margin: i32,
    #[comptime] finish: Finish,
    #[comptime] units: [u32; 2],
    #[define(F)] _element: ElemType,
) {
    let (along, beside) = comptime!((units[0] as usize, units[1] as usize));
    let lanes = N::value();
    let index = CUBE_POS * beside + UNIT_POS_Y as usize;
    let mut amax = 0u32;
    if index < out.len() {
        let block = index / sizes.parts;
        let line = block / sizes.across;
        let (matrix, down) = (line / sizes.down, line % sizes.down);
        let row = down * sizes.block_rows;
        let column = block % sizes.across * sizes.block_columns;
        let rows = min(sizes.block_rows, sizes.rows - row);
        let columns = min(sizes.block_columns, sizes.columns - column);
        let corner = (matrix * sizes.rows + row) * sizes.columns + column;
        let first = min(index % sizes.parts * sizes.part, rows * columns);
        let last = min(first + sizes.part, rows * columns);
        for i in range_stepped(first + UNIT_POS_X as usize, last, along) {
            let values = x[corner + i / columns * sizes.columns + i % columns];
            #[unroll]
            for lane in 0..lanes {
                amax = max(amax, magnitude(bits_of::<F>(values.extract(lane))));
            }
        }
    }
    let amax = row_max(amax, along, beside);
    if UNIT_POS_X == 0 && index < out.len() {
        out[index] = finished(amax, margin, finish);
    }
}

/// Computes out\[block\] from the block's parts; one row of units per block.
#[cube(launch_unchecked)]
pub(super) fn fp8_amax_blocks(
    partial: &[u32],
    out: &mut [u32],
    parts: usize,
    margin: i32,
    #[comptime] finish: Finish,
    #[comptime] units: [u32; 2],
) {
    let (along, beside) = comptime!((units[0] as usize, units[1] as usize));
    let block = CUBE_POS * beside + UNIT_POS_Y as usize;
    let mut amax = 0u32;
    if block < out.len() {
        for part in range_stepped(UNIT_POS_X as usize, parts, along) {
            amax = max(amax, partial[block * parts + part]);
        }
    }
    let amax = row_max(amax, along, beside);
    if UNIT_POS_X == 0 && block < out.len() {
        out[block] = finished(amax, margin, finish);
    }
}

/// Enqueues the reduction: one launch, or two if blocks have several parts.
pub(super) fn launch_reduction(
    client: &Client,
    plan: &Reduction,
    finish: Finish,
    margin: i32,
    x: Handle,
    out: Handle,
) {
    let blocks = plan.of.total();
    let several = plan.parts > 1;
    let partial = if several {
        empty_words(client, blocks * plan.parts)
    } else {
        out.clone()
    };
    launched::note(|| format!("fp8_amax_parts_{}", plan.element));
    let (count, dim, lanes) = (plan.of_parts.count(), plan.of_parts.dim(), plan.lanes);
    let (sizes, units, element) = (plan.sizes(), plan.of_parts.units, plan.element.elem_type());
    let of_part = if several { Finish::Magnitude } else { finish };
    let [x, parts] = [x, partial.clone()].map(bind);
    // SAFETY: x is as long as it is described; a part ends with its block and a block with its matrix.
    unsafe {
        fp8_amax_parts::launch_unchecked(
            client, count, dim, lanes, x, parts, sizes, margin, of_part, units, element,
        );
    }
    if !several {
        return;
    }
    launched::note(|| finish.name());
    // SAFETY: `partial` has the parts of every block, `out` an entry for each.
    unsafe {
        fp8_amax_blocks::launch_unchecked(
            client,
            plan.of_blocks.count(),
            plan.of_blocks.dim(),
            bind(partial),
            bind(out),
            plan.parts,
            margin,
            finish,
            plan.of_blocks.units,
        );
    }
}

/// Plans a largest magnitude.
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, and for more than a binding holds.
pub fn plan_amax(problem: AmaxProblem, device: &Capability) -> Result<Reduction, Unsupported> {
    let (len, element) = (problem.len(), problem.element());
    element.supported(KERNEL, device)?;
    fits_cube(device)?;
    let lanes = lanes_of(len);
    let vectors = [1, len / lanes];
    let of = Blocks {
        matrix: vectors,
        block: vectors,
        blocks: Granularity::Tensor.blocks(1, len),
        matrices: 1,
    };
    Reduction::plan(of, lanes, element, device)
}

/// Enqueues amax \[1\] = max |x|: at most two launches.
pub fn launch_amax(client: &Client, plan: &Reduction, x: Handle, amax: Handle) {
    launch_reduction(client, plan, Finish::Magnitude, 0, x, amax);
}
