//! The distribution of blocks over units.

use super::amax::{Blocks, Reduction, fits_cube, lanes_of, units_for};
use super::word::Coding;
use super::{KERNEL, Problem};
use crate::fp8::Conversion;
use crate::prelude::*;
use crate::rounds::{fits_rounds, looped};
use moebius_ops::fp8::LANES_PER_WORD;
#[cfg(doc)]
use moebius_ops::fp8::Overflow;
use moebius_ops::scaling::Granularity;

/// Words of a block that one cube takes even if there are few blocks: 64 per unit.
const CUBE_WORDS: usize = 16_384;

/// The number of blocks that keeps a GPU busy whatever their size.
const MANY_BLOCKS: usize = 256;

/// Words of a block up to which one CPU unit takes the block alone, which is cheaper than a second launch.
const UNIT_WORDS: usize = 4096;

/// The largest number of neighbouring words of a CPU unit: they share a scale and a loop without divisions.
const RUN: usize = 1024;

/// Which units compute the scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// A row of a cube's units owns a block, and also encodes it.
    Cube(Grid),
    /// One unit owns a block, and also encodes it.
    Unit(Grid),
    /// Separate launches compute the scales before the codes.
    Parts(Reduction),
}

/// A [`Problem`], planned for a device, for quantisation and dequantisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The problem.
    pub problem: Problem,
    /// Elements per vector of x and y.
    pub(super) lanes: usize,
    pub(super) variant: Variant,
    /// One unit per word, or per run of words.
    pub(super) words: Grid,
    pub(super) run: usize,
    pub(super) conversion: Conversion,
}

/// Plans quantisation and dequantisation of `problem`.
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, and for more than a binding, a grid or the rounds of an invocation's loops
/// hold.
pub fn plan(problem: Problem, device: &Capability) -> Result<Plan, Unsupported> {
    let element = problem.element();
    element.supported(KERNEL, device)?;
    crate::fits_binding(KERNEL, problem.len() * element.bytes(), device)?;
    crate::fits_binding(KERNEL, problem.words() * 4, device)?;
    crate::fits_binding(KERNEL, problem.scales() * 4, device)?;
    fits_cube(device)?;
    let (run, runs) = runs(&problem, device);
    Ok(Plan {
        problem,
        lanes: lanes_of(problem.shape()[2]),
        variant: variant(&problem, device)?,
        words: Grid::elementwise(KERNEL, runs, device)?,
        run,
        conversion: Conversion::Bits,
    })
}

/// Checks that a device can store the codes and scales of `stack` matrices like the one of `problem`, even if it can't bind them
/// at once, because a product reads them in pieces.
///
/// # Errors
/// [`Unsupported`] when the codes or the scales are more than a buffer holds.
pub fn check_kept(problem: &Problem, stack: usize, device: &Capability) -> Result<(), Unsupported> {
    let limit = device.limits.max_buffer_bytes;
    let bytes = 4 * problem.words().max(problem.scales()) as u64;
    let bytes = bytes.saturating_mul(stack as u64);
    let needs = format_args!("a buffer of {bytes} bytes");
    let have = format_args!("buffers of at most {limit} bytes");
    Unsupported::unless(bytes <= limit, KERNEL, needs, have)
}

/// The number of words per run, and the number of runs.
fn runs(problem: &Problem, device: &Capability) -> (usize, usize) {
    if device.cpu_cores.is_none() || problem.cuts_words() {
        return (1, problem.words());
    }
    let [matrices, rows, _] = problem.shape();
    let of_block = problem.block()[1].div_ceil(LANES_PER_WORD).div_ceil(RUN);
    (RUN, matrices * rows * problem.blocks()[1] * of_block)
}

fn variant(problem: &Problem, device: &Capability) -> Result<Variant, Unsupported> {
    let [block_rows, block_columns] = problem.block();
    let words = block_rows * block_columns.div_ceil(LANES_PER_WORD);
    let blocks = blocks_with_padding(problem);
    if let Some(cores) = device.cpu_cores {
        let busy = blocks >= cores as usize || words <= UNIT_WORDS;
        if !problem.cuts_words() && (busy || problem.granularity() == Granularity::Mx) {
            let grid = Grid::elementwise(KERNEL, blocks / problem.scales_per_word(), device)?;
            return Ok(Variant::Unit(grid));
        }
        return parts(problem, device);
    }
    if problem.cuts_words() || (words > CUBE_WORDS && blocks < MANY_BLOCKS) {
        return parts(problem, device);
    }
    let units = units_for(words, device);
    let whole = (units[1] as usize).is_multiple_of(problem.scales_per_word());
    let needs = format_args!("{} units in a cube", LANES_PER_WORD as u32 * units[0]);
    Unsupported::unless(whole, KERNEL, needs, device.limits.max_units_per_cube)?;
    // Words that a row of units doesn't hold at once are walked twice.
    let walks = 2 * looped(words.div_ceil(units[0] as usize), 0);
    fits_rounds(KERNEL, walks, device)?;
    let cubes = blocks.div_ceil(units[1] as usize);
    Ok(Variant::Cube(Grid::of_cubes(KERNEL, cubes, units, device)?))
}

fn parts(problem: &Problem, device: &Capability) -> Result<Variant, Unsupported> {
    let [matrices, rows, columns] = problem.shape();
    let [block_rows, block_columns] = problem.block();
    let lanes = if problem.cuts_words() {
        1
    } else {
        lanes_of(columns)
    };
    let of = Blocks {
        matrix: [rows, columns / lanes],
        block: [block_rows, block_columns / lanes],
        blocks: problem.blocks(),
        matrices,
    };
    let reduction = Reduction::plan(of, lanes, problem.element(), device)?;
    Ok(Variant::Parts(reduction))
}

fn blocks_with_padding(problem: &Problem) -> usize {
    let [down, _] = problem.blocks();
    problem.shape()[0] * down * problem.padded_across()
}

impl Plan {
    /// A copy that uses `conversion` for words whose values share a scale; other words, and [`Overflow::Ieee`], still use integer
    /// arithmetic.
    ///
    /// # Errors
    /// [`Unsupported`] under the conditions of [`Conversion::supported`].
    pub fn by(self, conversion: Conversion, device: &Capability) -> Result<Self, Unsupported> {
        conversion.supported(KERNEL, device)?;
        Ok(Self { conversion, ..self })
    }

    /// The number of launches of a quantisation.
    pub fn launches(&self) -> usize {
        match self.variant {
            Variant::Parts(reduction) if reduction.parts > 1 => 3,
            Variant::Parts(_) => 2,
            Variant::Cube(_) | Variant::Unit(_) => 1,
        }
    }

    /// The number of units of a cube of the largest launch.
    pub fn units_per_cube(&self) -> u32 {
        let largest = match &self.variant {
            Variant::Cube(grid) | Variant::Unit(grid) => *grid,
            Variant::Parts(reduction) => reduction.of_parts,
        };
        let units = |grid: Grid| grid.units[0] * grid.units[1];
        units(largest).max(units(self.words))
    }

    pub(super) fn coding(&self) -> Coding {
        Coding {
            format: self.problem.format(),
            overflow: self.problem.overflow(),
            scale_type: self.problem.granularity().scale_type(),
            conversion: self.conversion,
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
