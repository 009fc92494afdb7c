//! The shapes of the `tile` and `rows` variants.

use super::{KERNEL, Variant};
use crate::prelude::*;
use moebius_ops::attention::Problem;

/// Elements per vector along a head, and keys per register of scores.
pub(super) const LANES: usize = 4;
/// The smallest number of queries for tiles; with fewer, most of a cube would idle.
const FEWEST_QUERIES: usize = 16;

/// The sizes of a unit's and a cube's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub(super) units: usize,
    /// Queries per unit.
    pub(super) rows: usize,
    /// Keys per tile.
    pub(super) keys: usize,
    /// Whether tiles are copied to workgroup memory.
    pub(super) staged: bool,
}

/// A shape, and a grid with a cube for each block of queries of each head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    pub(super) shape: Shape,
    pub(super) grid: Grid,
}

impl Shape {
    /// The shape for `variant`; it depends on the size of heads, not on lengths or the batch.
    pub(super) fn of(
        problem: &Problem,
        variant: Variant,
        lanes: usize,
        device: &Capability,
    ) -> Result<Self, Unsupported> {
        let s = problem.sizes();
        if device.cpu_cores.is_some() {
            let needs = "a GPU or a software adapter for the tile and rows variants";
            return Err(Unsupported::new(KERNEL, needs, &device.name));
        }
        let dims = [s.head_dim, s.value_dim];
        let suits = |dim: usize| dim.is_multiple_of(2 * LANES);
        if !dims.into_iter().all(suits) || s.queries < FEWEST_QUERIES || lanes != LANES {
            let needs = format!(
                "heads of whole eights and {FEWEST_QUERIES} queries for the tile and rows variants"
            );
            let have = format!("heads of {dims:?} and {} queries", s.queries);
            return Err(Unsupported::new(KERNEL, needs, have));
        }
        let elements = s.head_dim + s.value_dim;
        let shape = match variant {
            Variant::Rows => Self::rows(elements),
            _ => Self::tile(elements),
        };
        let memory = shape.shared_bytes(elements);
        crate::fits_cube(KERNEL, shape.units as u32, memory, device)?;
        Ok(shape)
    }

    /// The shape of `rows`. Reading a vector costs lavapipe about 700 cycles, for one query per unit as for eight. With eight
    /// queries of 64 elements the kernel takes five seconds to compile, with sixteen twelve (Mesa 22.3.6, a core of an EPYC with
    /// AVX2). Eight heads of 64 with 1024 queries and keys take 0.57 s (causal 0.44 s); `unit` takes 4.8 s (3.5 s).
    fn rows(elements: usize) -> Self {
        Self {
            units: 16,
            rows: (1024 / elements).clamp(1, 8),
            keys: 16,
            staged: false,
        }
    }

    /// The shape of `tile`: at most 128 registers for queries and sums, except for long heads, and 8 KiB of workgroup memory.
    fn tile(elements: usize) -> Self {
        Self {
            units: 64,
            rows: (128 / elements).clamp(1, 4),
            keys: (2048 / elements / LANES * LANES).clamp(LANES, 32),
            staged: true,
        }
    }

    /// The number of queries of a cube.
    pub(super) const fn queries(self) -> usize {
        self.units * self.rows
    }

    const fn shared_bytes(self, elements: usize) -> usize {
        if self.staged {
            self.keys * elements * 4
        } else {
            0
        }
    }

    /// A grid with a cube for each block of queries of each head.
    pub(super) fn grid(self, problem: &Problem, device: &Capability) -> Result<Grid, Unsupported> {
        let s = problem.sizes();
        let cubes = s.batch * s.heads * s.queries.div_ceil(self.queries());
        Grid::of_cubes(KERNEL, cubes, [self.units as u32, 1], device)
    }
}
