//! How CubeCL computes [`moebius_ops::kv_cache`].
//!
//! | file | contents |
//! |---|---|
//! | `append.rs` | appends tokens to their pages, in place |
//! | `attend.rs` | attends to parts of the tokens, without barriers; merges the parts in order, adds sinks, and writes o and lse |
//! | `rows.rs` | processes one block of 16 tokens |
//!
//! Tokens are cut into parts of 256 at absolute positions, and the softmax of a part covers its tokens alone. For few rows of
//! queries, each unit takes one part, and the merge joins the parts. For more rows, a unit joins several parts itself by the same
//! arithmetic, or fewer where a device ends long loops. A row's bits are therefore the same either way, and independent of other
//! rows and sequences.

mod append;
mod attend;
#[cfg(feature = "emit")]
mod entries;
mod rows;

pub use append::{AppendBuffers, AppendPlan, launch_append, plan_append};
pub use attend::launch;
#[cfg(feature = "emit")]
pub use entries::entries;

use crate::attention::operands::{TableBuffers, table_lengths};
use crate::attention::rules::Kinds;
use crate::fp8::encode_bits;
use crate::grouped_gemm::fp8::decode_lane;
use crate::prelude::*;
use crate::rounds::{allows, fits_rounds, looped, once};
use cubecl::prelude::*;
use moebius_ops::attention::Problem;
use moebius_ops::fp8::{Fp8Format, Overflow};
use moebius_ops::kv_cache::{Append, Attend, BLOCK, CacheFormat, Layout};

const KERNEL: &str = "kv cache";

/// The name of the kernel for `problem`.
fn name(problem: &Attend) -> String {
    let p = problem.attention();
    let rules = p.rules().iter().map(|rule| format!("_{}", rule.name()));
    let format = problem.layout().format().name();
    let rules: String = rules.collect();
    format!("cache_attention_{format}_{}{rules}", p.element())
}

fn append_name(append: &Append) -> String {
    format!(
        "cache_append_{}_{}",
        append.layout.format().name(),
        append.element
    )
}

fn merge_name(p: &Problem) -> String {
    let sinks = crate::launched::suffix(p.sinks(), "_sinks");
    format!("cache_merge_{}{sinks}", p.element())
}

/// Tokens per part.
const PART: usize = 256;

/// The largest number of rows of queries per key head for which each unit takes a single part.
const FEW: usize = 16;

/// Rows of queries per task on a processor: with two registers of tokens, their sums fit the registers.
const ROWS: usize = 4;

/// An attention over a cache, planned for a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The problem.
    pub problem: Attend,
    /// The number of units that share the tokens of a row.
    pub splits: usize,
    /// Words per register.
    lanes: usize,
    /// Rows per unit.
    rows: usize,
    cpu: bool,
    /// One unit per part of some rows, or one per core.
    grid: Grid,
    /// One unit per register of o.
    merge: Grid,
    /// One unit per word of the longest table.
    tables: Grid,
}

/// Plans an attention over a cache.
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, and for more than a binding, a grid or the rounds of an invocation's loops
/// hold.
pub fn plan(problem: Attend, device: &Capability) -> Result<Plan, Unsupported> {
    let (p, s, layout) = (
        problem.attention(),
        *problem.attention().sizes(),
        problem.layout(),
    );
    p.element().supported(KERNEL, device)?;
    let of_head = s.queries * p.group();
    let parts = s.keys.div_ceil(PART).max(1);
    let cpu = device.cpu_cores.is_some();
    let rows = if cpu { of_head.clamp(1, ROWS) } else { 1 };
    let lanes = lanes(layout.value_words(), 4, device);
    let spec = Spec::of(&problem, rows, cpu);
    // A unit takes as few parts as the rounds of its loops allow.
    let longest = |splits: &usize| spec.rounds(lanes, parts.div_ceil(*splits));
    let splits = match of_head {
        0..=FEW => parts,
        _ => (1..parts)
            .find(|splits| allows(device, longest(splits)))
            .unwrap_or(parts),
    };
    fits_rounds(KERNEL, longest(&splits).max(looped(splits, 0)), device)?;
    let tables = table_lengths(p);
    let partial = p.query_rows() * splits;
    let bindings = [
        layout.bytes(),
        p.query_rows() * s.head_dim * p.element().bytes(),
        partial * s.value_dim * 4,
        partial * 8,
        s.batch * problem.table() * 4,
        tables.iter().sum::<usize>() * 4,
    ];
    for bytes in bindings {
        crate::fits_binding(KERNEL, bytes, device)?;
    }
    let items = s.batch * s.kv_heads * of_head.div_ceil(rows) * splits;
    let longest = tables.into_iter().max().unwrap_or(0);
    Ok(Plan {
        problem,
        splits,
        lanes,
        rows,
        cpu,
        grid: one_each(items, device)?,
        merge: Grid::elementwise(KERNEL, p.query_rows() * s.value_dim / lanes, device)?,
        tables: Grid::elementwise(KERNEL, longest, device)?,
    })
}

impl Plan {
    fn spec(&self) -> Spec {
        Spec::of(&self.problem, self.rows, self.cpu)
    }

    /// The number of pages per sequence; 0 if the pool is empty.
    fn pages(&self) -> usize {
        match self.problem.layout().words() {
            0 => 0,
            _ => self.problem.table(),
        }
    }
}

/// A grid of one unit per item, or of one task per core that takes every `cores`-th item.
fn one_each(items: usize, device: &Capability) -> Result<Grid, Unsupported> {
    let items = match device.cpu_cores {
        Some(cores) => cores as usize,
        None => items,
    };
    Grid::elementwise(KERNEL, items, device)
}

fn units(grid: &Grid) -> usize {
    let cubes: usize = grid.cubes.iter().map(|n| *n as usize).product();
    cubes * (grid.units[0] * grid.units[1]) as usize
}

buffers! {
    /// Buffers of an attention over a cache; shapes as in [`moebius_ops::kv_cache`].
    pub struct Buffers {
        pub q: Handle => "[B, Hq, Sq, D]" read,
        pub pool: Handle => "[pages, words]" read,
        pub table: Handle => "u32 [B, M]" read,
        pub spans: Handle => "u32 [B, 2]" read,
        /// Tables of the rules, read.
        pub tables: TableBuffers,
        pub o: Handle => "[B, Hq, Sq, Dv]" written,
        pub lse: Handle => "[B, Hq, Sq] f32" written,
    }
}

/// Sizes of a pool.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Pool {
    pages: usize,
    /// Tokens per page.
    page: usize,
    kv_heads: usize,
    /// Pages per sequence in the table.
    table: usize,
}

fn pool(layout: &Layout, table: usize) -> PoolLaunch {
    PoolLaunch::new(layout.pages(), layout.page(), layout.kv_heads(), table)
}

/// Compile-time parameters of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spec {
    kinds: Kinds,
    format: CacheFormat,
    head_dim: usize,
    value_dim: usize,
    rows: usize,
    cpu: bool,
}

impl Spec {
    fn of(problem: &Attend, rows: usize, cpu: bool) -> Self {
        let p = problem.attention();
        Self {
            kinds: Kinds::of(p),
            format: problem.layout().format(),
            head_dim: p.sizes().head_dim,
            value_dim: p.sizes().value_dim,
            rows,
            cpu,
        }
    }

    /// Rounds of loops of a unit of a GPU that joins `parts` parts, in registers of `width` words.
    fn rounds(self, width: usize, parts: usize) -> usize {
        // Clearing, shrinking, joining or storing the sums.
        let sums = if self.in_registers(width) {
            0
        } else {
            looped(self.value_dim / width, 0)
        };
        let of_value = self.value_words() / width;
        let tokens = looped(BLOCK.div_ceil(width), 0);
        let weigh = if self.in_registers(width) {
            of_value * tokens
        } else {
            looped(of_value, tokens)
        };
        let block = looped(self.key_words(), 0) + sums + weigh;
        let part = sums + looped(PART / BLOCK, block) + sums;
        once(2 * sums + looped(parts, part))
    }

    /// Whether the sums of a row stay in registers. A GPU keeps them there if all indices are constants; a processor has too few
    /// registers.
    const fn in_registers(self, width: usize) -> bool {
        !self.cpu && self.value_dim / width <= 32
    }

    /// The index, within the sums, of the first register of sum `at` of a group that is updated together: `group` neighbouring
    /// registers for each code of a word, row after row; a value has `of_value` registers of words.
    const fn register(self, at: usize, group: usize, of_value: usize) -> usize {
        let per = self.per_word();
        let (row, column) = (at / (per * group), at % (per * group));
        row * per * of_value + column / group * of_value + column % group
    }

    const fn per_word(self) -> usize {
        self.format.per_word()
    }

    const fn scaled(self) -> bool {
        self.format.scaled()
    }

    const fn key_words(self) -> usize {
        self.head_dim / self.per_word()
    }

    const fn value_words(self) -> usize {
        self.value_dim / self.per_word()
    }

    /// Offsets of the values and of the scales within a block, and the block's length, in words.
    const fn values(self) -> usize {
        BLOCK * self.key_words()
    }

    const fn scales(self) -> usize {
        self.values() + BLOCK * self.value_words()
    }

    const fn block(self) -> usize {
        let scales = if self.scaled() { 2 * BLOCK } else { 0 };
        self.scales() + scales
    }
}

/// The place of a block: a column of the table, and the block's index in the page.
#[derive(CubeType, Clone, Copy)]
struct Place {
    column: usize,
    in_page: usize,
}

#[cube]
fn place_of(pool: &Pool, token: usize) -> Place {
    Place {
        column: token / pool.page,
        in_page: token % pool.page / comptime!(BLOCK),
    }
}

/// The page of a place, and the index of the block's first word; if the pool lacks the page, the page is the pool's number of
/// pages.
#[cube]
fn block_at(
    table: &[u32],
    pool: &Pool,
    batch: usize,
    head: usize,
    place: &Place,
    #[comptime] spec: Spec,
) -> (usize, usize) {
    let mut page = pool.pages;
    if place.column < pool.table {
        page = min(
            table[batch * pool.table + place.column] as usize,
            pool.pages,
        );
    }
    let of_page = pool.page / comptime!(BLOCK);
    let block = (page * pool.kv_heads + head) * of_page + place.in_page;
    (page, block * comptime!(spec.block()))
}

/// The values of code `place` of every word, without scales.
#[cube]
fn value_of<N: Size>(
    words: Vector<u32, N>,
    #[comptime] place: usize,
    #[comptime] spec: Spec,
) -> Vector<f32, N> {
    match comptime!(spec.format) {
        CacheFormat::F32 => Vector::<f32, N>::reinterpret(words),
        CacheFormat::Bf16 => {
            let up = comptime!(16 - 16 * place as u32);
            let top = (words << Vector::new(up)) & Vector::new(0xFFFF_0000u32);
            Vector::<f32, N>::reinterpret(top)
        }
        CacheFormat::F16 => half_of::<N>(words >> Vector::new(comptime!(16 * place as u32))),
        CacheFormat::E4m3 => {
            if comptime!(spec.cpu) {
                decode_lane::<N>(words, place, Fp8Format::E4M3)
            } else {
                e4m3_of::<N>(words >> Vector::new(comptime!(8 * place as u32)))
            }
        }
    }
}

/// The f16 values of the low bits. No intermediate f32 is subnormal, because drivers flush those to 0.
#[cube]
fn half_of<N: Size>(words: Vector<u32, N>) -> Vector<f32, N> {
    let sign = (words & Vector::new(0x8000u32)) << Vector::new(16u32);
    let magnitude = (words & Vector::new(0x7FFFu32)) << Vector::new(13u32);
    let small = from_smallest::<N>(magnitude, 113u32);
    let is_small = magnitude.less_than(&Vector::new(0x0080_0000u32));
    let normal = magnitude + Vector::new(0x3800_0000u32);
    let finite = select_many(is_small, small, normal);
    let special = magnitude.greater_equal(&Vector::new(0x0F80_0000u32));
    let bits = select_many(special, magnitude | Vector::new(0x7F80_0000u32), finite);
    Vector::<f32, N>::reinterpret(bits | sign)
}

/// The E4M3 values of the low bits, also without a subnormal f32 on the way.
#[cube]
fn e4m3_of<N: Size>(words: Vector<u32, N>) -> Vector<f32, N> {
    let sign = (words & Vector::new(0x80u32)) << Vector::new(24u32);
    let magnitude = (words & Vector::new(0x7Fu32)) << Vector::new(20u32);
    let small = from_smallest::<N>(magnitude, 121u32);
    let is_small = magnitude.less_than(&Vector::new(0x0080_0000u32));
    let normal = magnitude + Vector::new(0x3C00_0000u32);
    let finite = select_many(is_small, small, normal);
    let special = magnitude.greater_equal(&Vector::new(0x07F0_0000u32));
    let bits = select_many(special, Vector::new(0x7FC0_0000u32), finite);
    Vector::<f32, N>::reinterpret(bits | sign)
}

/// The bits of subnormal codes, computed as a normal number of the smallest exponent minus its implicit bit.
#[cube]
fn from_smallest<N: Size>(magnitude: Vector<u32, N>, #[comptime] exponent: u32) -> Vector<u32, N> {
    let implicit = comptime!(f32::from_bits(exponent << 23));
    let above = magnitude + Vector::new(comptime!(exponent << 23));
    let value = Vector::<f32, N>::reinterpret(above) - Vector::new(implicit);
    Vector::<u32, N>::reinterpret(value)
}

/// Encodes a value that was already divided by its scale.
#[cube]
fn code_of(value: f32, #[comptime] format: CacheFormat) -> u32 {
    let bits = u32::reinterpret(value);
    let magnitude = bits & 0x7FFF_FFFF;
    match comptime!(format) {
        CacheFormat::F32 => bits,
        CacheFormat::Bf16 => {
            let rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
            select(magnitude > 0x7F80_0000, (bits >> 16) | 0x40, rounded)
        }
        CacheFormat::F16 => {
            // Adding 1/2 rounds a subnormal half to the last bits of the sum.
            let small = u32::reinterpret(f32::reinterpret(magnitude) + 0.5f32) - 0x3F00_0000;
            let rebased = max(magnitude, 0x3880_0000u32) - 0x3800_0000;
            let normal = (rebased + 0xFFF + ((rebased >> 13) & 1)) >> 13;
            let finite = select(magnitude < 0x3880_0000, small, min(normal, 0x7C00u32));
            let code = select(magnitude > 0x7F80_0000, 0x7E00u32, finite);
            code | ((bits >> 16) & 0x8000)
        }
        CacheFormat::E4m3 => encode_bits(bits, Fp8Format::E4M3, Overflow::Saturate),
    }
}

#[cfg(test)]
mod tests;
