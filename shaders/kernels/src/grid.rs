//! The number of units of a launch and their grouping into cubes, within a device's limits.

use crate::error::Unsupported;
use cubecl::prelude::{CubeCount, CubeDim};
use moebius_device::Capability;

/// The cubes of a launch, and their units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Cubes along x, y and z.
    pub cubes: [u32; 3],
    /// Units per cube along x and y.
    pub units: [u32; 2],
}

/// Units per cube of kernels with one unit per output and no cooperation.
const ELEMENTWISE_UNITS: u32 = 64;

impl Grid {
    /// A grid with at least one unit per item; kernels skip surplus units by position.
    ///
    /// A CPU runs each unit of a cube as one task that loops over the cubes, so there the grid has one unit per core.
    ///
    /// # Errors
    /// [`Unsupported`] when the cubes don't fit the device's cube count.
    pub fn elementwise(
        kernel: &'static str,
        items: usize,
        device: &Capability,
    ) -> Result<Self, Unsupported> {
        let units = device
            .cpu_cores
            .unwrap_or(ELEMENTWISE_UNITS)
            .min(device.limits.max_units_per_cube)
            .max(1);
        Self::of_cubes(kernel, items.div_ceil(units as usize), [units, 1], device)
    }

    /// A grid of at least `cubes` cubes with `units` units along x and y; kernels skip surplus cubes by position.
    ///
    /// # Errors
    /// [`Unsupported`] when the cubes don't fit the device's cube count.
    pub(crate) fn of_cubes(
        kernel: &'static str,
        cubes: usize,
        units: [u32; 2],
        device: &Capability,
    ) -> Result<Self, Unsupported> {
        let cubes = cubes.max(1);
        let [x_max, y_max, _] = device.limits.max_cube_count;
        let x = cubes.min(x_max as usize);
        let y = cubes.div_ceil(x);
        let needs = format_args!("{cubes} cubes");
        let have = format_args!("at most {x_max} x {y_max}");
        Unsupported::unless(y <= y_max as usize, kernel, needs, have)?;
        Ok(Self {
            cubes: [x as u32, y as u32, 1],
            units,
        })
    }

    /// The cube count for CubeCL.
    pub fn count(&self) -> CubeCount {
        CubeCount::Static(self.cubes[0], self.cubes[1], self.cubes[2])
    }

    /// The cube dimensions for CubeCL.
    pub fn dim(&self) -> CubeDim {
        CubeDim::new_2d(self.units[0], self.units[1])
    }
}

/// The cube count for CubeCL of `cubes` along x, y and z, which a plan has checked.
pub(crate) fn count(cubes: [usize; 3]) -> CubeCount {
    let [x, y, z] = cubes.map(|cubes| cubes as u32);
    CubeCount::Static(x, y, z)
}

/// The lanes of a vector load along a dimension of `len` elements of `bytes` bytes: the largest power of two that the device
/// loads at once and that divides `len`.
pub(crate) fn lanes(len: usize, bytes: usize, device: &Capability) -> usize {
    let widest = (device.load_width_bits as usize / 8 / bytes).max(1);
    // WGSL has no vector wider than four; a CPU loads a whole register.
    let most = if device.cpu_cores.is_some() {
        widest
    } else {
        4
    };
    let widest = widest.min(most);
    (0..=widest.ilog2())
        .rev()
        .map(|log| 1 << log)
        .find(|lanes| len.is_multiple_of(*lanes))
        .unwrap_or(1)
}
