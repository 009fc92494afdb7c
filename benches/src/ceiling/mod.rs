//! What a result is compared with: the device's peak and the speed of its memory, measured in the same run.

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

/// Bytes read in turn over those of the last-level cache.
const OVER_CACHE: u64 = 4;
/// Bytes read in turn at least, so that starting threads takes no time to speak of.
const LEAST: u64 = 256 << 20;
/// Bytes of the last-level cache where the system doesn't say.
const ASSUMED: u64 = 64 << 20;

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

/// What memory gave in the run of a benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryRead {
    /// GB/s.
    pub gb_per_s: f64,
    /// Threads that read, each a part: as many as there are processors for this process.
    pub threads: usize,
    /// Bytes that they read, before they come to the first again: at least four times the next.
    pub bytes: u64,
    /// Bytes of the last-level caches of the processors that this process may use.
    pub last_level_cache_bytes: u64,
    /// Who says so.
    pub cache_size_of: CacheSize,
}

/// Where the size of a cache comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheSize {
    /// The system says so.
    System,
    /// It doesn't say; 64 MiB are assumed.
    Assumed,
}

impl MemoryRead {
    /// Reads for up to some seconds; the fastest counts.
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

/// The sum of some words, in sums that don't wait for each other.
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

/// Copies of `bytes` that are together at least four times the last-level cache, so that using one after the other
/// reads memory; at least 2.
pub(crate) fn copies_beyond(cache: u64, bytes: u64) -> u64 {
    (OVER_CACHE * cache).div_ceil(bytes.max(1)).max(2)
}

/// Bytes of the last-level caches of the processors that this process may use, and who says so.
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

/// Bytes of the highest level of the caches of some processors, each cache once.
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

/// The bytes of `512K` or `32M`.
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
