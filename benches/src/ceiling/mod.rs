//! What a result is compared with: the device's peak and the speed of its memory, measured in the same run.

mod memory;
#[cfg(feature = "flex")]
mod multiply_adds;

pub use memory::{CacheSize, MemoryRead};

use crate::BenchError;
use crate::timing::{Timing, fastest};
use burn::tensor::{Device, Distribution, Tensor};
use cubecl::client::Client;
use moebius_device::{Capability, Opened};
use moebius_shaders::peak;
use serde::Serialize;

pub(crate) use memory::{copies_beyond, last_level_cache};

/// Waits for everything enqueued on `client`.
pub(crate) fn wait(client: &Client) -> Result<(), BenchError> {
    cubecl::future::block_on(client.sync()).map_err(BenchError::device)
}

/// Waits for everything enqueued on a Burn device.
pub(crate) fn finish(device: &Device) -> Result<(), BenchError> {
    device.sync().map_err(BenchError::device)
}

/// [`finish`] for what gives `results`, which are held until then: a device that records operations leaves
/// out those whose results are dropped.
pub(crate) fn finish_with<T>(results: T, device: &Device) -> Result<(), BenchError> {
    let finished = finish(device);
    drop(results);
    finished
}

/// What the machine reached in the run of a benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Ceilings {
    /// GFLOP/s the device reached on `peak_of`.
    pub peak_gflops: f64,
    /// What the peak is of.
    pub peak_of: String,
    /// What the processor's threads read from memory; `None` where tensors aren't in it.
    pub memory: Option<MemoryRead>,
}

/// How near a result is to what the machine can do.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Reached {
    /// Its GFLOP/s over the peak.
    pub peak_share: f64,
    /// What its operations and bytes take at least.
    pub floor: Option<Floor>,
}

/// What a result can't be faster than, and how far it is from that.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Floor {
    /// Which of the two takes longer.
    pub binds: Bound,
    /// Milliseconds of the floating-point operations at the peak.
    pub compute_ms: f64,
    /// Milliseconds of the bytes at the speed at which memory is read.
    pub memory_ms: f64,
    /// The longer of them over the median: 1 is as fast as the machine can.
    pub share: f64,
}

/// What a result is bound by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Arithmetic.
    Compute,
    /// The speed of memory.
    Memory,
}

impl Bound {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
        }
    }
}

impl Ceilings {
    /// Measures both, one after the other, on as many threads.
    pub(crate) fn measure(opened: &Opened, device: &Device) -> Result<Self, BenchError> {
        let (rate, of) = peak(opened, device)?;
        let host = opened.capability.is_cpu();
        Ok(Self {
            peak_gflops: rate / 1e9,
            peak_of: of.to_string(),
            memory: host.then(MemoryRead::measure).transpose()?,
        })
    }

    /// How near a result of `flops` and `bytes` is to this.
    pub(crate) fn reached(&self, time: Timing, [flops, bytes]: [u64; 2]) -> Reached {
        Reached {
            peak_share: time.speed(flops).gflops / self.peak_gflops,
            floor: self.floor(flops, bytes, time.seconds),
        }
    }

    /// The floor of `flops` and `bytes` that took `seconds`; `None` where memory's speed isn't known.
    pub(crate) fn floor(&self, flops: u64, bytes: u64, seconds: f64) -> Option<Floor> {
        let memory = self.memory.as_ref()?;
        let compute_ms = flops as f64 / self.peak_gflops / 1e6;
        let memory_ms = bytes as f64 / memory.gb_per_s / 1e6;
        let binds = if compute_ms >= memory_ms {
            Bound::Compute
        } else {
            Bound::Memory
        };
        Some(Floor {
            binds,
            compute_ms,
            memory_ms,
            share: compute_ms.max(memory_ms) / (seconds * 1e3),
        })
    }
}

/// FLOP/s of what a result is compared with, and what that is.
fn peak(opened: &Opened, device: &Device) -> Result<(f64, &'static str), BenchError> {
    const MULTIPLY_ADDS: &str = "f32 multiply-adds";
    if let Some(client) = opened.client() {
        let rate = multiply_adds(&client, &opened.capability)?;
        return Ok((rate, MULTIPLY_ADDS));
    }
    #[cfg(feature = "flex")]
    if opened.device == moebius::Device::Flex {
        return Ok((multiply_adds::rate()?, MULTIPLY_ADDS));
    }
    Ok((matmul(device)?, "a 1024³ f32 matmul"))
}

/// FLOP/s of independent f32 multiply-adds in registers.
fn multiply_adds(client: &Client, device: &Capability) -> Result<f64, BenchError> {
    let plan = peak::plan(device);
    let out = client.empty(plan.bytes());
    let seconds = fastest(|| {
        peak::launch(client, &plan, out.clone());
        wait(client)
    })?;
    Ok(plan.flops() as f64 / seconds)
}

/// FLOP/s of Burn's own 1024³ product: the peak of a backend without kernels of ours.
fn matmul(device: &Device) -> Result<f64, BenchError> {
    const EDGE: usize = 1024;
    let random = || Tensor::<2>::random([EDGE, EDGE], Distribution::Default, device);
    let (a, b) = (random(), random());
    let seconds = fastest(|| {
        let _product = a.clone().matmul(b.clone());
        finish(device)
    })?;
    Ok(2.0 * (EDGE as f64).powi(3) / seconds)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
