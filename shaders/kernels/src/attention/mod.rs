//! How CubeCL computes [`moebius_ops::attention`].
//!
//! | variant | method |
//! |---|---|
//! | `unit` | one unit per query (backward, per query and per key), which walks over the keys it sees; WebGPU's default limits |
//! | `tile` | forward, on GPUs: queries in registers, tiles of keys and values in workgroup memory; WebGPU's default limits |
//! | `rows` | forward, on software adapters: more queries in registers, no workgroup memory; WebGPU's default limits |
//! | `tensor_core` | forward, only if the caller names it: both products by matrix instructions, f16 and bf16 |
//! | `cpu` | one task per core: packed keys, register tiles over tiles of keys, no barriers |
//!
//! Sums are f32 in ascending order without atomics, so the same inputs give the same bits, and a query's result depends only on
//! its own sequence. Tiles of keys that are hidden by positions, documents or blocks are never visited: [`Plan::visited`]
//! predicts how many tiles are.

mod backward;
mod cpu;
#[cfg(feature = "emit")]
mod entries;
pub(crate) mod operands;
mod rounds;
pub(crate) mod rules;
mod score_rule;
mod shape;
pub(crate) mod softmax;
mod tensor_core;
mod tile;
mod unit;
mod visits;

pub use backward::launch_backward;
pub(crate) use backward::launch_backward_ruled;
#[cfg(feature = "emit")]
pub use entries::entries;
pub use operands::{BackwardBuffers, Strided, TableBuffers, Through};
pub use score_rule::{LaunchRule, Pairs, RuleArgs, ScoreRule};

use crate::prelude::*;
use cubecl::prelude::*;
use moebius_device::Vendor;
use moebius_ops::attention::{Problem, Tables, Tile};
use moebius_ops::{Attention, AttentionPass};
use rules::Kinds;
use score_rule::NoRule;
use shape::{Shape, Tiling};
use std::ops::Range;

const KERNEL: &str = "attention";

/// The name of kernel `kernel` for `problem`.
fn name(problem: &Problem, kernel: &str) -> String {
    let rules = problem
        .rules()
        .iter()
        .map(|rule| format!("_{}", rule.name()));
    let sinks = crate::launched::suffix(problem.sinks(), "_sinks");
    let dropout = crate::launched::suffix(problem.dropout(), "_dropout");
    format!(
        "{kernel}_{}{}{sinks}{dropout}",
        problem.element(),
        rules.collect::<String>()
    )
}

moebius_ops::named! {
    /// The method of the forward pass.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Variant {
        /// One unit per query; needs only WebGPU's default limits.
        Unit = "unit",
        /// One unit per few queries, over tiles of keys that a cube shares, for GPUs; needs only WebGPU's default limits.
        Tile = "tile",
        /// One unit per several queries, without sharing, for software adapters.
        Rows = "rows",
        /// Matrix instructions on f16 and bf16, only if the caller names the variant.
        TensorCore = "tensor_core",
        /// One task per core, for processors.
        Cpu = "cpu",
    }
}

/// An attention [`Problem`], planned for a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The problem.
    pub problem: Problem,
    /// The variant of the forward pass.
    pub variant: Variant,
    lanes: usize,
    /// Shape and grid of the `Tile`, `Rows` and `TensorCore` variants.
    tiling: Option<Tiling>,
    /// Units per plane, for the `TensorCore` variant.
    plane: u32,
    /// f32s per register, and number of tasks, for the `Cpu` variant.
    register: usize,
    cores: usize,
    /// One unit per query and head.
    per_query: Grid,
    /// One unit per key and key head.
    per_key: Grid,
    /// One unit per word of the longest table.
    table_grid: Grid,
    /// Whether the kernels include a user-defined rule.
    ruled: bool,
    /// Whether the forward pass writes counts of visits instead of log-sum-exps.
    counted: bool,
}

/// Plans the attention and its backward pass; `variant` is that of the forward pass, or `None` for the one that suits the device.
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, and for more than a binding, a grid or the rounds of an invocation's loops
/// hold; for [`Variant::Cpu`] on
/// another runtime than the CPU's; for [`Variant::TensorCore`] without its matrix instructions or with heads that aren't
/// multiples of 16; and for [`Variant::Tile`] and [`Variant::Rows`] on the CPU runtime, with heads that aren't multiples of 8, or
/// with fewer than 16 queries. If the plan chooses, it takes [`Variant::Unit`] in those last cases.
pub fn plan(
    problem: Problem,
    variant: Option<Variant>,
    device: &Capability,
) -> Result<Plan, Unsupported> {
    sized(problem, variant, device)?.checked(AttentionPass::Forward, device)
}

/// Plans a pass of an attention by the kernels that suit the device; `ruled` says whether there is a [`LaunchRule`], whose own loops aren't counted.
///
/// # Errors
/// [`Unsupported`] under the conditions of [`plan`], for the loops of this pass alone.
pub(crate) fn plan_pass(
    operation: &Attention,
    ruled: bool,
    device: &Capability,
) -> Result<Plan, Unsupported> {
    let variant = ruled.then(|| variant_with_rule(device));
    let plan = Plan {
        ruled,
        ..sized(operation.problem, variant, device)?
    };
    plan.checked(operation.pass, device)
}

/// The variant with a user-defined rule: [`Variant::Cpu`] on a processor and [`Variant::Unit`] elsewhere.
fn variant_with_rule(device: &Capability) -> Variant {
    match device.cpu_cores {
        Some(_) => Variant::Cpu,
        None => Variant::Unit,
    }
}

/// Plans both passes without counting their loops.
fn sized(
    problem: Problem,
    variant: Option<Variant>,
    device: &Capability,
) -> Result<Plan, Unsupported> {
    let (s, bytes) = (problem.sizes(), problem.element().bytes());
    problem.element().supported(KERNEL, device)?;
    let tables = operands::table_lengths(&problem);
    let largest = [
        problem.query_rows() * s.head_dim.max(s.value_dim) * bytes,
        problem.key_rows() * s.head_dim.max(s.value_dim) * bytes,
        problem.query_rows() * 8,
        tables.iter().sum::<usize>() * 4,
    ];
    for bytes in largest {
        crate::fits_binding(KERNEL, bytes, device)?;
    }
    let longest = tables.into_iter().max().unwrap_or(0);
    let lanes = lanes(s.head_dim, bytes, device).min(lanes(s.value_dim, bytes, device));
    let (variant, tiling) = choose(&problem, variant, lanes, device)?;
    let plane = device.subgroup.map_or(1, |(plane, _)| plane);
    Ok(Plan {
        problem,
        variant,
        lanes,
        tiling,
        plane,
        register: (device.load_width_bits as usize / 32).max(1),
        cores: device.cpu_cores.unwrap_or(1) as usize,
        per_query: Grid::elementwise(KERNEL, problem.query_rows(), device)?,
        per_key: Grid::elementwise(KERNEL, problem.key_rows(), device)?,
        table_grid: Grid::elementwise(KERNEL, longest, device)?,
        ruled: false,
        counted: false,
    })
}

/// Returns `variant`, or the one that suits the device, and the tiling of the variants that have one.
fn choose(
    problem: &Problem,
    variant: Option<Variant>,
    lanes: usize,
    device: &Capability,
) -> Result<(Variant, Option<Tiling>), Unsupported> {
    let tile = |variant| -> Result<_, Unsupported> {
        let shape = Shape::of(problem, variant, lanes, device)?;
        let grid = shape.grid(problem, device)?;
        Ok(Tiling { shape, grid })
    };
    match variant {
        Some(Variant::Cpu) if device.cpu_cores.is_none() => {
            let needs = "a CPU runtime for the cpu variant";
            Err(Unsupported::new(KERNEL, needs, &device.name))
        }
        Some(variant @ (Variant::Tile | Variant::Rows)) => Ok((variant, Some(tile(variant)?))),
        Some(Variant::TensorCore) => {
            let tiling = tensor_core::tiling(problem, lanes, device)?;
            Ok((Variant::TensorCore, Some(tiling)))
        }
        Some(variant) => Ok((variant, None)),
        None if device.cpu_cores.is_some() => Ok((Variant::Cpu, None)),
        None => {
            let best = match device.vendor {
                Vendor::Software => Variant::Rows,
                _ => Variant::Tile,
            };
            Ok(tile(best).map_or((Variant::Unit, None), |tiling| (best, Some(tiling))))
        }
    }
}

impl Plan {
    /// The name of kernel `kernel` of this plan.
    fn name(&self, kernel: &str) -> String {
        let suffix = crate::launched::suffix;
        name(&self.problem, kernel)
            + suffix(self.ruled, "_ruled")
            + suffix(self.counted, "_counted")
    }

    fn form(&self) -> Form {
        let s = self.problem.sizes();
        Form {
            kinds: Kinds::of(&self.problem),
            vectors: s.head_dim / self.lanes,
            value_vectors: s.value_dim / self.lanes,
            sinks: self.problem.sinks(),
            dropout: self.problem.dropout(),
            ruled: self.ruled,
            counted: self.counted,
        }
    }

    /// The shapes of q, k and v.
    fn shapes(&self) -> [[usize; 4]; 3] {
        let s = self.problem.sizes();
        [
            [s.batch, s.heads, s.queries, s.head_dim],
            [s.batch, s.kv_heads, s.keys, s.head_dim],
            [s.batch, s.kv_heads, s.keys, s.value_dim],
        ]
    }
}

/// Compile-time parameters of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Form {
    kinds: Kinds,
    /// Vectors per query or key head.
    vectors: usize,
    /// Vectors per value head.
    value_vectors: usize,
    sinks: bool,
    dropout: bool,
    /// Whether there is a user-defined rule.
    ruled: bool,
    /// Whether visits are counted; see [`Plan::counting`].
    counted: bool,
}

buffers! {
    /// Buffers of the forward pass; shapes as in [`moebius_ops::attention`].
    pub struct ForwardBuffers {
        pub q: Strided => "[B, Hq, Sq, D]" read,
        pub k: Strided => "[B, Hkv, Skv, D]" read,
        pub v: Strided => "[B, Hkv, Skv, Dv]" read,
        /// Tables of the rules, read.
        pub tables: TableBuffers,
        pub o: Handle => "[B, Hq, Sq, Dv]" written,
        pub lse: Handle => "[B, Hq, Sq] f32" written,
    }
}

/// Enqueues the attention: one launch, and one per table if there are several.
///
/// # Panics
/// If the table of a rule is missing.
pub fn launch(client: &Client, plan: &Plan, buffers: ForwardBuffers) {
    launch_by(client, plan, buffers, &NoRule);
}

/// Enqueues [`launch`] with `rule` after the problem's rules.
///
/// # Panics
/// Like [`launch`], and unless the plan is of an operation with such a rule.
pub(crate) fn launch_ruled<R: LaunchRule>(
    client: &Client,
    plan: &Plan,
    buffers: ForwardBuffers,
    rule: &R,
) {
    assert!(plan.ruled, "expected a plan with a rule");
    launch_by(client, plan, buffers, rule);
}

fn launch_by<R: LaunchRule>(client: &Client, plan: &Plan, buffers: ForwardBuffers, rule: &R) {
    if plan.problem.query_rows() == 0 {
        return;
    }
    let tables = operands::gather_tables(client, &plan.problem, plan.table_grid, &buffers.tables);
    match (plan.variant, plan.tiling) {
        (Variant::Cpu | Variant::TensorCore, _) if BROWSER => not_in_a_browser(),
        (Variant::TensorCore, Some(tiling)) => {
            tensor_core::launch(client, plan, tiling, buffers, tables);
        }
        (_, Some(tiling)) => tile::launch(client, plan, tiling, buffers, tables),
        (Variant::Cpu, None) => cpu::launch(client, plan, buffers, tables, rule),
        (_, None) => unit::launch(client, plan, buffers, tables, rule),
    }
}

impl Plan {
    /// A copy whose forward pass writes the number of tiles of keys that it visited for the query instead of the log-sum-exp; for
    /// [`Variant::Unit`], the number of keys.
    pub fn counting(self) -> Self {
        Self {
            counted: true,
            ..self
        }
    }

    /// Predicts the counts of [`Plan::counting`], \[B, Hq, Sq\], from the rules and from the tables of documents and blocks.
    pub fn visited(&self, tables: &Tables<'_>) -> Vec<usize> {
        let (p, s) = (&self.problem, self.problem.sizes());
        let mut visited = Vec::with_capacity(p.query_rows());
        for batch in 0..s.batch {
            for head in 0..s.heads {
                let of = |query| self.visited_by([batch, head % p.group(), query], tables);
                visited.extend((0..s.queries).map(of));
            }
        }
        visited
    }

    /// The number of tiles (or keys) that query `query` visits; `head` is the index of its head in its group.
    fn visited_by(&self, [batch, head, query]: [usize; 3], tables: &Tables<'_>) -> usize {
        let (s, group) = (self.problem.sizes(), self.problem.group());
        let shared = |first: usize, size: usize| first..(first + size).min(s.queries);
        match (self.variant, self.tiling) {
            (_, Some(Tiling { shape, .. })) => {
                let block = shared(query / shape.queries() * shape.queries(), shape.queries());
                self.tiles(batch, [block.clone(), block], shape.keys, tables)
            }
            (Variant::Cpu, None) => {
                let row = query * group + head;
                let [block, strip] = cpu::shared_with(row, s.queries * group)
                    .map(|rows| rows.start / group..(rows.end - 1) / group + 1);
                self.tiles(batch, [block, strip], cpu::tile_keys(self), tables)
            }
            _ => self.problem.keys_of(query..query + 1).len(),
        }
    }

    /// The number of tiles of `size` keys that tables may show to the queries of `block` and that the other rules may show to
    /// those of `part`.
    fn tiles(
        &self,
        batch: usize,
        [block, part]: [Range<usize>; 2],
        size: usize,
        tables: &Tables<'_>,
    ) -> usize {
        let (rules, s) = (self.problem.rules(), self.problem.sizes());
        let near = self.problem.keys_of(block.clone());
        let met = |at: &usize| {
            let keys = at * size..((at + 1) * size).min(s.keys);
            let show = || rules.tables_show(s, tables, batch, (block.clone(), keys.clone()));
            rules.tile(s, part.clone(), keys.clone()) != Tile::Empty && show()
        };
        (near.start / size..near.end.div_ceil(size))
            .filter(met)
            .count()
    }
}

#[cfg(test)]
mod tests;
