//! Ceilings that results are compared with: the device's peak and the speed of its memory, measured in the same run.

#[cfg(feature = "flex")]
mod multiply_adds;

use crate::BenchError;
use crate::timing::{Timing, fastest};
use burn::tensor::{Device, Distribution, Tensor};
use cubecl::client::Client;
use moebius_device::{Capability, Opened};
use moebius_shaders::peak;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;
use std::thread::available_parallelism;

/// Least number of bytes read per round, as a multiple of the last-level cache's bytes.
const OVER_CACHE: u64 = 4;
/// Least number of bytes read per round, so that the time for starting threads is negligible.
const LEAST: u64 = 256 << 20;
/// Assumed bytes of the last-level cache where the system doesn't say.
const ASSUMED: u64 = 64 << 20;

/// How much a result may exceed the peak by noise. One that exceeds it by more has other instructions than the work that sets the peak, such as
/// those for pairs of bf16 numbers or for matrices, and no floor is known.
const NOISE: f64 = 1.1;

/// Waits for everything enqueued on `client`.
pub(crate) fn wait(client: &Client) -> Result<(), BenchError> {
    cubecl::future::block_on(client.sync()).map_err(BenchError::device)
}

/// Waits for everything enqueued on a Burn device.
pub(crate) fn finish(device: &Device) -> Result<(), BenchError> {
    device.sync().map_err(BenchError::device)
}

/// Waits as [`finish`] does for the work that gives `results`, and holds them until then: a device that records
/// operations leaves out those whose results are dropped.
pub(crate) fn finish_with<T>(results: T, device: &Device) -> Result<(), BenchError> {
    let finished = finish(device);
    drop(results);
    finished
}

/// Peak and memory speed that the machine reached in the run of a benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Ceilings {
    /// GFLOP/s that the device reached on `peak_of`.
    pub peak_gflops: f64,
    /// Name of the work whose GFLOP/s are the peak.
    pub peak_of: String,
    /// Speed at which the processor's threads read memory; `None` where tensors aren't in the processor's memory.
    pub memory: Option<MemoryRead>,
}

/// How near a result is to the machine's ceilings.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Reached {
    /// The result's GFLOP/s divided by the peak.
    pub peak_share: f64,
    /// Least time for the result's operations and bytes; `None` where the memory's speed isn't known, or the result beats the peak.
    pub floor: Option<Floor>,
}

/// Least time that a result can take, and how near the result is to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Floor {
    /// The bound that takes longer: arithmetic or memory.
    pub binds: Bound,
    /// Milliseconds for the floating-point operations at the peak.
    pub compute_ms: f64,
    /// Milliseconds for the bytes at the measured speed of memory.
    pub memory_ms: f64,
    /// The longer of both times divided by the median time: 1 is as fast as the machine can be.
    pub share: f64,
}

/// Resource that limits the speed of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Floating-point arithmetic.
    Compute,
    /// The speed of memory.
    Memory,
}

impl Bound {
    /// Name of the bound in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
        }
    }
}

impl Ceilings {
    /// Measures the peak, then the memory, both on all threads of the process.
    pub(crate) fn measure(opened: &Opened, device: &Device) -> Result<Self, BenchError> {
        let (rate, of) = peak(opened, device)?;
        let host = opened.capability.is_cpu();
        Ok(Self {
            peak_gflops: rate / 1e9,
            peak_of: of.to_string(),
            memory: host.then(MemoryRead::measure).transpose()?,
        })
    }

    /// Compares a result of `flops` and `bytes` that took `time` with these ceilings.
    pub(crate) fn reached(&self, time: Timing, [flops, bytes]: [u64; 2]) -> Reached {
        Reached {
            peak_share: time.speed(flops).gflops / self.peak_gflops,
            floor: self.floor(flops, bytes, time.seconds),
        }
    }

    /// The floor for `flops` and `bytes` that took `seconds`; `None` where the memory's speed isn't known, or the peak is beaten.
    pub(crate) fn floor(&self, flops: u64, bytes: u64, seconds: f64) -> Option<Floor> {
        let memory = self.memory.as_ref()?;
        let compute_ms = flops as f64 / self.peak_gflops / 1e6;
        let memory_ms = bytes as f64 / memory.gb_per_s / 1e6;
        if compute_ms > NOISE * seconds * 1e3 {
            return None;
        }
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

/// GFLOP/s that a device reaches now, as [`Ceilings::peak_gflops`] has them in a benchmark; takes some seconds at most.
///
/// # Errors
/// [`BenchError::Refused`] for a device that can't be opened, and [`BenchError::Device`] when it fails.
pub fn peak_gflops(device: &moebius::Device) -> Result<f64, BenchError> {
    let opened = moebius_device::open(device).map_err(moebius::Error::from)?;
    let (rate, _) = peak(&opened, &moebius::open(&opened.device)?)?;
    Ok(rate / 1e9)
}

/// FLOP/s of the work that sets the peak, and the name of that work.
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

/// FLOP/s of independent f32 multiply-adds in the device's registers.
fn multiply_adds(client: &Client, device: &Capability) -> Result<f64, BenchError> {
    let plan = peak::plan(device);
    let out = client.empty(plan.bytes());
    let seconds = fastest(|| {
        peak::launch(client, &plan, out.clone());
        wait(client)
    })?;
    Ok(plan.flops() as f64 / seconds)
}

/// FLOP/s of Burn's own 1024³ product, the peak of a backend without our kernels.
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

/// Speed at which memory was read in the run of a benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryRead {
    /// GB/s that all threads read together.
    pub gb_per_s: f64,
    /// Number of threads, each reading its own part: one per processor available to this process.
    pub threads: usize,
    /// Bytes read before any is read again: at least four times `last_level_cache_bytes`.
    pub bytes: u64,
    /// Bytes of the last-level caches of the processors that this process may use.
    pub last_level_cache_bytes: u64,
    /// Source of `last_level_cache_bytes`.
    pub cache_size_of: CacheSize,
}

/// Where the size of a cache comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheSize {
    /// The operating system.
    System,
    /// An assumption of 64 MiB, where the system doesn't say.
    Assumed,
}

impl MemoryRead {
    /// Reads for up to some seconds and keeps the fastest round.
    pub(crate) fn measure() -> Result<Self, BenchError> {
        let (cache, of) = last_level_cache();
        let bytes = (OVER_CACHE * cache).max(LEAST);
        let words: Vec<u64> = (0..bytes / 8).collect();
        let threads = available_parallelism().map_or(1, usize::from);
        let seconds = fastest(|| {
            std::thread::scope(|scope| {
                for part in words.chunks(words.len().div_ceil(threads)) {
                    scope.spawn(|| std::hint::black_box(sum(part)));
                }
            });
            Ok(())
        })?;
        Ok(Self {
            gb_per_s: bytes as f64 / seconds / 1e9,
            threads,
            bytes,
            last_level_cache_bytes: cache,
            cache_size_of: of,
        })
    }
}

/// Sum of `words`, in 16 partial sums that don't wait for each other.
fn sum(words: &[u64]) -> u64 {
    let mut sums = [0_u64; 16];
    let (blocks, rest) = words.as_chunks::<16>();
    for block in blocks {
        for (sum, word) in sums.iter_mut().zip(block) {
            *sum = sum.wrapping_add(*word);
        }
    }
    let all = sums.iter().chain(rest);
    all.fold(0, |sum, word| sum.wrapping_add(*word))
}

/// Number of copies of `bytes` that together are at least four times the last-level cache, so that using them in turns
/// reads memory; at least 2.
pub(crate) fn copies_beyond(cache: u64, bytes: u64) -> u64 {
    (OVER_CACHE * cache).div_ceil(bytes.max(1)).max(2)
}

/// Bytes of the last-level caches of the processors that this process may use, and the source of that number.
pub(crate) fn last_level_cache() -> (u64, CacheSize) {
    let allowed = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = allowed
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let system = Path::new("/sys/devices/system/cpu");
    match allowed.map(|list| caches_of(system, &numbers(list))) {
        Some(bytes) if bytes > 0 => (bytes, CacheSize::System),
        _ => (ASSUMED, CacheSize::Assumed),
    }
}

/// Total bytes of the highest-level caches of `processors`, counting each cache once.
fn caches_of(system: &Path, processors: &[u32]) -> u64 {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let mut found: BTreeSet<(u32, String, u64)> = BTreeSet::new();
    for processor in processors {
        let folder = system.join(format!("cpu{processor}/cache"));
        for index in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let of = |name| read(&index.path().join(name)).trim().to_owned();
            if of("type") == "Instruction" {
                continue;
            }
            if let (Ok(level), Some(bytes)) = (of("level").parse(), size(&of("size"))) {
                found.insert((level, of("shared_cpu_list"), bytes));
            }
        }
    }
    let last = found.last().map(|(level, ..)| *level);
    let last = found.iter().filter(|(level, ..)| Some(*level) == last);
    last.map(|(.., bytes)| bytes).sum()
}

/// Number of bytes in a size such as `512K` or `32M`.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u64 = digits.parse().ok()?;
    match &text[digits.len()..] {
        "" => Some(number),
        "K" => Some(number << 10),
        "M" => Some(number << 20),
        _ => None,
    }
}

/// The numbers of a list like `0-2,5`.
fn numbers(list: &str) -> Vec<u32> {
    let parts = list.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse().ok()?)
    });
    parts.flatten().collect()
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod memory_tests;
#[cfg(test)]
#[path = "tests.rs"]
mod tests;
