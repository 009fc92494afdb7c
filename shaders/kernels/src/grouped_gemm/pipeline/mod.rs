//! Products by matrix instructions from a ring of stages, on NVIDIA's cards from Ampere on: f16 or bf16 in, f32 sums.
//!
//! A cube keeps stages in workgroup memory, each with one step of inner columns of both operands. Asynchronous copies fill the
//! stages ahead while the instructions multiply the one at hand; sums stay in registers. Lines of an operand are cut into chunks of 16 bytes,
//! which are swizzled so that the eight lines of a fragment lie in different banks. [`copies`] moves chunks, [`products`] multiplies them.

pub(super) mod copies;
pub(super) mod products;

use super::KERNEL;
use super::fragments::Lines;
use crate::prelude::*;
use cubecl::prelude::*;
use moebius_device::Runtime;
use moebius_ops::Element;

/// Rows, columns and inner columns of an instruction of a plane; the inner columns of a group's are the same.
const M: usize = 16;

const N: usize = 8;
const K: usize = 16;

/// Elements of a chunk.
pub(super) const CHUNK: usize = 8;

/// Chunks of a swizzled line: 128 bytes.
const SWIZZLE: usize = 8;

/// Units of a plane.
pub(super) const PLANE: usize = 32;

/// The CUDA architecture that has `wgmma`.
pub(super) const HOPPER: u32 = 90;

/// Cubes below which a smaller tile is chosen: what it takes to occupy a large GPU.
const BUSY: usize = 128;

/// A chunk of an operand: eight elements of 16 bits.
pub(super) type Chunk = Vector<u32, Const<4>>;

/// Whose matrix instructions a kernel uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Instruction {
    /// `mma.m16n8k16`: a plane multiplies fragments in its registers.
    Plane,
    /// `wgmma.m64nNk16`, Hopper's: four planes multiply 64 rows in workgroup memory together.
    Group,
}

impl Instruction {
    /// The name of the pipelines by Hopper's instructions among emitted kernels.
    #[cfg(feature = "emit")]
    pub(super) const OF_HOPPER: &'static str = "pipelined_wgmma";

    /// The part of a kernel's name for Hopper's instructions.
    pub(super) const fn suffix(self) -> &'static str {
        match self {
            Self::Plane => "",
            Self::Group => "_wgmma",
        }
    }
}

/// The tile of a cube and its ring of stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pipeline {
    pub(super) by: Instruction,
    pub(super) element: Element,
    /// How the two operands lie in workgroup memory, which is how they lie in their buffers.
    pub(super) lines: [Lines; 2],
    /// Planes down and across the tile.
    planes: [usize; 2],
    /// Rows and columns of a plane.
    each: [usize; 2],
    /// Inner columns of a stage.
    pub(super) step: usize,
    pub(super) stages: usize,
}

/// A tile: planes down and across, rows and columns of each, inner columns of a stage, stages.
type Tile = ([usize; 2], [usize; 2], usize, usize);

/// The tiles, from the largest. Those of groups were the fastest of several on an H200, those of planes the fastest of three there
/// (benches/RESULTS.md).
const OF_GROUPS: [Tile; 4] = [
    ([8, 1], [16, 256], 64, 3),
    ([8, 1], [16, 128], 64, 3),
    ([4, 1], [16, 128], 64, 3),
    ([4, 1], [16, 64], 64, 8),
];

const OF_PLANES: [Tile; 3] = [
    ([2, 2], [64, 64], 32, 4),
    ([2, 2], [32, 64], 32, 4),
    ([2, 2], [32, 32], 64, 4),
];

/// What decides the size of a tile: segments of rows, all rows, and all columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) segments: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Extent {
    /// Whether a segment fills at least half of the tile's rows, and the tiles occupy the device.
    fn suits(&self, (planes, each, ..): Tile) -> bool {
        let [rows, columns] = [0, 1].map(|i| planes[i] * each[i]);
        let of_segment = self.rows / self.segments.max(1);
        let down = (self.rows / rows).max(self.segments.min(self.rows));
        let cubes = down * self.columns.div_ceil(columns);
        2 * of_segment > rows && cubes >= BUSY
    }
}

impl Pipeline {
    /// The pipeline of products of `element` on `device`.
    ///
    /// # Errors
    /// [`Unsupported`] without the instructions, or with too little workgroup memory.
    pub(super) fn of(
        element: Element,
        lines: [Lines; 2],
        extent: Extent,
        device: &Capability,
    ) -> Result<Self, Unsupported> {
        let input = element.to_string();
        // A device with asynchronous copies has `ldmatrix`, which is older.
        let copies = device.runtime == Runtime::Cuda && device.async_copies;
        let has = copies && device.has_mma((16, 8, 16), &input, "f32");
        let needs =
            format_args!("asynchronous copies and 16 x 8 x 16 matrix instructions in {input}");
        let have = format_args!("{} without them", device.name);
        Unsupported::unless(has, KERNEL, needs, have)?;
        let (by, tiles): (_, &[Tile]) = if of_hopper(device) {
            (Instruction::Group, &OF_GROUPS)
        } else {
            (Instruction::Plane, &OF_PLANES)
        };
        let largest = tiles.iter().find(|tile| extent.suits(**tile));
        let (planes, each, step, stages) = *largest.unwrap_or(&tiles[tiles.len() - 1]);
        let pipeline = Self {
            by,
            element,
            lines,
            planes,
            each,
            step,
            stages,
        };
        crate::fits_cube(KERNEL, pipeline.units() as u32, pipeline.bytes(), device)?;
        Ok(pipeline)
    }

    /// Rows and columns of a tile.
    pub(super) const fn tile(self) -> [usize; 2] {
        [self.planes[0] * self.each[0], self.planes[1] * self.each[1]]
    }

    /// Columns of a plane.
    pub(super) const fn plane_columns(self) -> usize {
        self.each[1]
    }

    pub(super) const fn units(self) -> usize {
        self.planes[0] * self.planes[1] * PLANE
    }

    /// Units of a plane, and planes.
    pub(super) const fn dim(self) -> [u32; 2] {
        [PLANE as u32, (self.units() / PLANE) as u32]
    }

    /// Chunks of an operand in a stage.
    pub(super) const fn chunks(self, operand: usize) -> usize {
        self.tile()[operand] * self.step / CHUNK
    }

    /// Chunks of a line of an operand.
    pub(super) const fn across(self, operand: usize) -> usize {
        match self.lines[operand] {
            Lines::Outer => self.step / CHUNK,
            Lines::Inner => self.tile()[operand] / CHUNK,
        }
    }

    /// Chunks of an operand that each unit copies for a stage: every tile has as many for each.
    pub(super) const fn copies(self, operand: usize) -> usize {
        self.chunks(operand) / self.units()
    }

    /// Bytes of workgroup memory.
    const fn bytes(self) -> usize {
        (self.chunks(0) + self.chunks(1)) * 16 * self.stages
    }

    /// Instructions down and across a plane's part of the tile; a group's counts as one per eight columns.
    pub(super) const fn products(self) -> [usize; 2] {
        [self.each[0] / M, self.each[1] / N]
    }

    /// Sums of a unit.
    pub(super) const fn sums(self) -> usize {
        self.products()[0] * self.products()[1] * 4
    }

    /// Rounds of the loop over `inner` inner columns.
    pub(super) const fn steps(self, inner: usize) -> usize {
        inner.div_ceil(self.step)
    }
}

/// Whether `device` has Hopper's instructions and the compiler that asks for them.
pub(super) fn of_hopper(device: &Capability) -> bool {
    let architecture = device.architecture.as_deref();
    let sm = architecture.and_then(|name| name.strip_prefix("sm_")?.parse().ok());
    sm == Some(HOPPER) && device.runtime == Runtime::Cuda && device.async_copies
}

/// The rings of both operands.
#[derive(CubeType)]
pub(super) struct Rings {
    pub(super) left: Shared<[Chunk]>,
    pub(super) right: Shared<[Chunk]>,
}

#[cube]
pub(super) fn rings(#[comptime] of: Pipeline) -> Rings {
    // `wgmma` wants eight lines of 128 bytes to begin at a multiple of their length.
    Rings {
        left: Shared::<[Chunk]>::new_aligned_slice(comptime!(of.stages * of.chunks(0)), 1024usize),
        right: Shared::<[Chunk]>::new_aligned_slice(comptime!(of.stages * of.chunks(1)), 1024usize),
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, PLANE};
    use super::{OF_GROUPS, OF_PLANES};

    #[test]
    fn each_unit_copies_as_many_chunks_of_a_stage() {
        for (planes, each, step, _) in OF_GROUPS.into_iter().chain(OF_PLANES) {
            let units = planes[0] * planes[1] * PLANE;
            for i in [0, 1] {
                let chunks = planes[i] * each[i] * step / CHUNK;
                assert!(chunks.is_multiple_of(units), "{planes:?} of {each:?}");
            }
        }
    }
}
