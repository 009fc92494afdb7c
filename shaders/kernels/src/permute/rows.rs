//! Shared parts of the kernels that move the rows of a [`moebius_ops::permute::RowsProblem`].

use crate::prelude::*;
use crate::rounds::{fits_rounds, looped};
use cubecl::prelude::*;
use moebius_ops::permute::RowsProblem;

/// A [`RowsProblem`], planned for a device, in either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsPlan {
    /// The rows.
    pub problem: RowsProblem,
    pub(super) lanes: usize,
    /// One unit per vector of the tokens' rows.
    pub(super) tokens: Grid,
    /// One unit per vector of the sorted rows.
    pub(super) rows: Grid,
    /// Units along x share a slot; each position along y is a slot of its own.
    pub(super) slots: Grid,
}

impl RowsPlan {
    /// The number of vectors of a row.
    pub(super) fn vectors(&self) -> usize {
        self.problem.width() / self.lanes
    }
}

/// Plans the moves of `problem`.
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, and for more than a binding or a grid holds.
pub fn plan_rows(problem: RowsProblem, device: &Capability) -> Result<RowsPlan, Unsupported> {
    const KERNEL: &str = "rows of experts";
    let (width, element) = (problem.width(), problem.element());
    element.supported(KERNEL, device)?;
    let rows = problem.tokens().max(problem.row_bound());
    crate::fits_binding(KERNEL, rows * width * element.bytes(), device)?;
    let lanes = lanes(width, element.bytes(), device);
    let vectors = width / lanes;
    let units = units_per_slot(vectors, device);
    let of_slot = looped(vectors.div_ceil(units[0] as usize), 0);
    fits_rounds(KERNEL, of_slot.max(looped(problem.top_k(), 0)), device)?;
    let cubes = problem.slots().div_ceil(units[1] as usize);
    Ok(RowsPlan {
        problem,
        lanes,
        tokens: Grid::elementwise(KERNEL, problem.tokens() * vectors, device)?,
        rows: Grid::elementwise(KERNEL, problem.row_bound() * vectors, device)?,
        slots: Grid::of_cubes(KERNEL, cubes, units, device)?,
    })
}

/// Units per cube of kernels that sum over rows; those along x share a row.
const SUM_UNITS: u32 = 128;

/// The largest number of units that share a row, a power of two.
const MOST_UNITS_PER_ROW: u32 = 32;

/// Units along x and y of a cube; the units along x sum the `vectors` vectors of a slot.
fn units_per_slot(vectors: usize, device: &Capability) -> [u32; 2] {
    let most = device.limits.max_units_per_cube.max(1);
    if let Some(cores) = device.cpu_cores {
        return [1, cores.clamp(1, most)];
    }
    let units = 1 << SUM_UNITS.min(most).ilog2();
    let vectors = vectors.next_power_of_two().min(MOST_UNITS_PER_ROW as usize);
    let x = units.min(vectors as u32);
    [x, units / x]
}

/// The weight of a slot; 1 without weights.
#[cube]
pub(super) fn weight_of(weights: &ComptimeOption<&[f32]>, slot: usize) -> f32 {
    #[comptime]
    match weights {
        ComptimeOption::Some(weights) => weights[slot],
        ComptimeOption::None => 1.0f32.runtime(),
    }
}

/// The name of a kernel with or without weights.
pub(super) fn name(kernel: &str, element: Element, weighted: bool) -> String {
    let weighted = launched::suffix(weighted, "_weighted");
    format!("{kernel}_{element}{weighted}")
}

#[cfg(test)]
mod tests {
    use super::units_per_slot;

    use moebius_profiles as profiles;

    #[test]
    fn the_units_of_a_sum_are_powers_of_two() {
        let gpu = profiles::webgpu_default();
        for (vectors, units) in [
            (1, [1, 128]),
            (2, [2, 64]),
            (3, [4, 32]),
            (32, [32, 4]),
            (1000, [32, 4]),
        ] {
            assert_eq!(units_per_slot(vectors, &gpu), units, "{vectors} vectors");
        }
        let cpu = profiles::cpu_4core_avx2();
        assert_eq!(units_per_slot(1000, &cpu), [1, 4]);
    }
}
