//! How fast memory is read: more of it, in turn, than caches hold.

use crate::BenchError;
use crate::timing::fastest;
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
mod tests;
