//! The arithmetic ceiling that benchmarks compare with: independent multiply-adds in registers.
//!
//! FLOPs: [`Plan::flops`]. Bytes: one store per unit.

use crate::prelude::*;
use cubecl::prelude::*;

/// Independent sums per unit, enough to hide the latency of a multiply-add.
const CHAINS: usize = 12;

/// Multiply-adds per chain.
const STEPS: usize = 1 << 14;

/// The number of cubes of 64 units on a GPU.
const GPU_CUBES: u32 = 4096;

/// A run of multiply-adds, sized for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    grid: Grid,
    lanes: usize,
    steps: usize,
}

/// Plans enough work to keep `device` busy for some milliseconds.
pub fn plan(device: &Capability) -> Plan {
    let software = device.kind == moebius_device::DeviceKind::Cpu;
    let steps = STEPS / if software { 8 } else { 1 };
    match device.cpu_cores {
        Some(cores) => Plan {
            grid: Grid {
                cubes: [1, 1, 1],
                units: [cores, 1],
            },
            lanes: (device.load_width_bits as usize / 32).max(1),
            steps: STEPS * 64,
        },
        None => Plan {
            grid: Grid {
                cubes: [if software { 64 } else { GPU_CUBES }, 1, 1],
                units: [64, 1],
            },
            lanes: 4,
            steps: steps.min(device.loop_rounds.map_or(steps, |most| most as usize / 2)),
        },
    }
}

impl Plan {
    /// The number of units, each of which stores one vector.
    pub fn units(&self) -> usize {
        (self.grid.cubes[0] * self.grid.units[0]) as usize
    }

    /// The number of bytes of the output.
    pub fn bytes(&self) -> usize {
        self.units() * self.lanes * 4
    }

    /// Floating-point operations of one launch.
    pub fn flops(&self) -> u64 {
        (2 * self.units() * self.lanes * self.steps * CHAINS) as u64
    }
}

#[cube(launch_unchecked)]
fn multiply_adds<N: Size>(out: &mut [Vector<f32, N>], seed: f32, steps: usize) {
    if ABSOLUTE_POS < out.len() {
        let mut sums = Array::<Vector<f32, N>>::new(comptime!(CHAINS));
        #[unroll]
        for i in 0..comptime!(CHAINS) {
            sums[i] = Vector::new(seed + f32::cast_from(i));
        }
        let factor = Vector::<f32, N>::new(seed);
        for _ in 0..steps {
            #[unroll]
            for i in 0..comptime!(CHAINS) {
                sums[i] = fma(sums[i], factor, factor);
            }
        }
        let mut total = Vector::<f32, N>::new(0.0f32);
        #[unroll]
        for i in 0..comptime!(CHAINS) {
            total += sums[i];
        }
        out[ABSOLUTE_POS] = total;
    }
}

/// Enqueues one run; `out` has [`Plan::bytes`] bytes.
pub fn launch(client: &Client, plan: &Plan, out: Handle) {
    launched::note(|| "multiply_adds");
    // SAFETY: `out` holds a vector per unit; units past its end return.
    unsafe {
        multiply_adds::launch_unchecked(
            client,
            plan.grid.count(),
            plan.grid.dim(),
            plan.lanes,
            bind(out),
            0.5,
            plan.steps,
        );
    }
}

/// The entry of the kernel of multiply-adds.
#[cfg(feature = "emit")]
pub fn entry() -> crate::emit::KernelEntry {
    crate::emit::KernelEntry::new("peak", "multiply-adds", "multiply_adds", |at| {
        launch(at.client(), &plan(&at.capability), at.buffer());
        Ok(())
    })
}
