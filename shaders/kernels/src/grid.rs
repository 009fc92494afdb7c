//! How many units a launch starts and how they are grouped, within a device's limits.

use crate::error::Unsupported;
use cubecl::prelude::{CubeCount, CubeDim};
use moebius_device::Capability;

/// Cubes and units of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Cubes along x, y, z.
    pub cubes: [u32; 3],
    /// Units of a cube along x, y.
    pub units: [u32; 2],
}

/// Units of a cube for kernels with one unit per output and no cooperation.
const ELEMENTWISE_UNITS: u32 = 64;

impl Grid {
    /// One unit per item for at least `items` items; kernels drop the surplus units by position.
    ///
    /// A CPU runs each unit of a cube as one task that loops over the cubes, so it gets one unit
    /// per core.
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

    /// At least `cubes` cubes of `units` along x, y; kernels drop the surplus cubes by position.
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

    /// CubeCL's cube count.
    pub fn count(&self) -> CubeCount {
        CubeCount::Static(self.cubes[0], self.cubes[1], self.cubes[2])
    }

    /// CubeCL's cube dimension.
    pub fn dim(&self) -> CubeDim {
        CubeDim::new_2d(self.units[0], self.units[1])
    }
}

/// CubeCL's cube count of so many cubes along x, y, z, which a plan has checked.
pub(crate) fn count(cubes: [usize; 3]) -> CubeCount {
    let [x, y, z] = cubes.map(|cubes| cubes as u32);
    CubeCount::Static(x, y, z)
}

/// Lanes of a vector load along a dimension of `len` elements of `bytes` each: the widest power of
/// two that the device loads at once and that divides `len`.
pub(crate) fn lanes(len: usize, bytes: usize, device: &Capability) -> usize {
    let widest = (device.load_width_bits as usize / 8 / bytes).max(1);
    // WGSL has no vector wider than four; a CPU takes a whole register.
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
