//! How CubeCL computes [`moebius_ops::grouped_gemm`]: a file per variant, and [`plan()`] to choose one.
//!
//! Every variant without matrix instructions sums over k in order with fused multiply-adds, so these variants agree
//! to the last bit. An output depends on the other rows of the batch in no variant.

pub(crate) mod activation;
pub mod bias_gradient;
mod blocks;
mod cpu;
mod cpu_fp8;
#[cfg(feature = "emit")]
mod entries;
pub mod fp8;
mod fragments;
pub mod gradient;
mod naive;
mod pipeline;
mod pipelined;
mod plan;
mod sparse24;
mod tensor_core;
mod tile;
pub mod weight_gradient;

#[cfg(feature = "emit")]
pub use entries::entries;
use plan::Matrices;
pub(crate) use plan::plan_over_tiles;
pub use plan::{Choice, Plan, Slab, Variant, plan};
pub use tile::TileShape;

use crate::fp8::Conversion;
use crate::permute::TILE_WORDS;
use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::grouped_gemm::fp8::scale_shape;
use moebius_ops::grouped_gemm::{Activation, Problem, Source, Stored, WeightLayout};
use moebius_ops::permute;
use moebius_ops::scaling::Fp8Scheme;

const KERNEL: &str = "grouped_gemm";

/// The name of `variant`'s kernel for `problem`, with everything that changes its code except sizes.
fn name(problem: &Problem, variant: Variant) -> String {
    let family = family(problem);
    let rows = rows_name(problem);
    let mut name = format!("{family}_{}_{}_{rows}", variant.name(), problem.element);
    name += launched::suffix(problem.layout == WeightLayout::InOut, "_in_out");
    name += launched::suffix(problem.gated, "_gated");
    if let Some(activation) = problem.activation {
        name += &format!("_{activation}");
    }
    name += launched::suffix(problem.bias, "_bias");
    if let Stored::Fp8(codes) = problem.stored {
        name += &format!("_{}_{}", codes.format.name(), codes.granularity.name());
    }
    if let Stored::Blocks(format) = problem.stored {
        name += &format!("_{format}");
    }
    name
}

/// The name of the family of kernels for what is stored of the weights.
fn family(problem: &Problem) -> &'static str {
    match problem.stored {
        Stored::Values => "grouped_gemm",
        Stored::Fp8(_) => "fp8_gemm",
        Stored::Sparse24 => "sparse24_gemm",
        Stored::Blocks(_) => "block_gemm",
    }
}

/// The part of a kernel's name for the rows that a product reads.
pub(crate) fn rows_name(problem: &Problem) -> &'static str {
    match problem.rows {
        _ if problem.dense => "dense",
        Source::Tokens => "gather",
        Source::Sorted => "sorted",
    }
}

/// The number of tiles of `tile_rows` rows in the worst routing.
pub(crate) fn max_tiles(problem: &Problem, tile_rows: usize) -> usize {
    let rows = problem.row_bound;
    if problem.dense {
        return rows.div_ceil(tile_rows);
    }
    let sort = permute::Problem::new(rows, problem.experts, tile_rows);
    sort.map_or(0, |sort| sort.max_tiles())
}

buffers! {
    /// The rows of each expert, from a sort.
    pub struct Segments {
        pub order: Handle => "[S] u32" read: "slots sorted by expert",
        pub offsets: Handle => "[E+1] u32" read,
        /// The list of tiles of the sort.
        pub tiles: Handle,
    }
}

buffers! {
    /// Buffers of one grouped GEMM.
    pub struct Operands {
        pub x: Handle = "x" | "rows" => "[T,k] or [R,k]" read,
        /// The segments of the experts, read; absent in a dense product.
        pub segments: Option<Segments> = "offsets",
        /// Weights \[E, n or 2n, k\] or \[E, k, n\], those of them that are kept, panels of codes ([`fp8`]), or blocks of codes, read.
        pub weights: Handle = "codes" | "W",
        /// Scales of codes or places of kept weights, read; absent if all weights are stored as values or in blocks.
        pub scales_or_places: Option<Handle> = "scales" | "places",
        pub bias: Option<Handle> = "b" => "[E, n or 2n]" read: "present when the problem has a bias",
        pub out: Handle = "y" => "[R,n]" written,
    }
}

/// Enqueues the product: one launch, or one per slab of weights.
pub fn launch(client: &Client, plan: &Plan, operands: Operands) {
    if plan.problem.row_bound == 0 {
        return;
    }
    for slab in &plan.slabs {
        launched::note(|| {
            let instructions = plan.matrices.map_or("", Matrices::suffix);
            name(&plan.problem, plan.variant) + instructions + plan.conversion.suffix()
        });
        match plan.variant {
            Variant::Cpu | Variant::TensorCore | Variant::Pipelined if BROWSER => {
                not_in_a_browser()
            }
            Variant::Cpu if plan.problem.stored.fp8().is_some() => {
                cpu_fp8::launch(client, plan, slab, &operands);
            }
            Variant::Cpu => cpu::launch(client, plan, slab, &operands),
            Variant::Unit | Variant::Gemv => tile::launch(client, plan, slab, &operands),
            Variant::TensorCore => tensor_core::launch(client, plan, slab, &operands),
            Variant::Pipelined => pipelined::launch(client, plan, slab, &operands),
            Variant::Naive => naive::launch(client, plan, slab, &operands),
        }
    }
}

/// Sizes given at launch to the variants that bind slabs.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Sizes {
    n: usize,
    k: usize,
    top_k: usize,
    /// The number of rows of a dense product.
    rows: usize,
    /// The number of scales down and across an expert's matrix.
    scales_down: usize,
    scales_across: usize,
    /// The experts whose weights are bound: the first, and one past the last.
    slab_first: usize,
    slab_last: usize,
}

fn sizes(plan: &Plan, slab: &Slab) -> SizesLaunch {
    let p = &plan.problem;
    let [down, across] = scale_shape(p);
    let (first, last) = (slab.first as usize, slab.last as usize);
    SizesLaunch::new(p.n, p.k, p.top_k, p.row_bound, down, across, first, last)
}

/// Adds the bias of weight row `row` to a sum.
#[cube]
pub(crate) fn with_bias<F: Float>(bias: &ComptimeOption<&[F]>, sum: f32, row: usize) -> f32 {
    #[comptime]
    match bias {
        ComptimeOption::Some(bias) => sum + f32::cast_from(bias[row]),
        ComptimeOption::None => sum,
    }
}

/// The row of a buffer that sorted row `sorted` reads; the row itself in a dense product.
#[cube]
pub(crate) fn input_row(
    order: &ComptimeOption<&[u32]>,
    sorted: usize,
    top_k: usize,
    #[comptime] source: Source,
) -> usize {
    #[comptime]
    match order {
        ComptimeOption::Some(order) => match comptime!(source) {
            Source::Tokens => order[sorted] as usize / top_k,
            Source::Sorted => sorted,
        },
        ComptimeOption::None => sorted,
    }
}

/// The first row of `expert` and one past its last; 0 and `rows` in a dense product.
#[cube]
fn segment(offsets: &ComptimeOption<&[u32]>, expert: usize, rows: usize) -> (usize, usize) {
    #[comptime]
    match offsets {
        ComptimeOption::Some(offsets) => (offsets[expert] as usize, offsets[expert + 1] as usize),
        ComptimeOption::None => (0usize.runtime(), rows),
    }
}

/// The expert of tile `at`, its first row, and one past its last.
#[cube]
pub(crate) fn tile_at(
    tiles: &ComptimeOption<&[u32]>,
    at: usize,
    rows: usize,
    #[comptime] tile_rows: usize,
) -> (usize, usize, usize) {
    #[comptime]
    match tiles {
        ComptimeOption::Some(tiles) => {
            let first = at * TILE_WORDS;
            (
                tiles[first] as usize,
                tiles[first + 1] as usize,
                tiles[first + 2] as usize,
            )
        }
        ComptimeOption::None => {
            let first = at * tile_rows;
            (0usize.runtime(), first, min(first + tile_rows, rows))
        }
    }
}

/// The tile of out that a cube computes: rows of an expert (the first, and one past the last), and the first column.
#[derive(CubeType, Clone, Copy)]
struct Place {
    expert: usize,
    row: usize,
    end: usize,
    column: usize,
}

/// Binds the order, offsets and tiles of a sort, if the product has one.
fn bind_segments(segments: Option<Segments>) -> [Option<BufferArg>; 3] {
    match segments {
        Some(s) => [s.order, s.offsets, s.tiles].map(|buffer| Some(bind(buffer))),
        None => [None, None, None],
    }
}

/// The buffer arguments that every variant binds, in binding order.
struct Bindings {
    x: BufferArg,
    order: Option<BufferArg>,
    offsets: Option<BufferArg>,
    tiles: Option<BufferArg>,
    /// Weights as elements: all of them, or those that are kept.
    w: Option<BufferArg>,
    /// Words of codes or blocks, or of the places of kept weights.
    words: Option<BufferArg>,
    /// The scales of codes.
    scales: Option<BufferArg>,
    bias: Option<BufferArg>,
    out: BufferArg,
}

impl Bindings {
    /// Binds `operands`, with only the weights of `slab`.
    fn new(problem: &Problem, slab: &Slab, operands: &Operands) -> Self {
        let operands = operands.clone();
        let others = [slab.first as usize, problem.experts - slab.last as usize];
        let ends = others.map(|experts| experts * problem.expert_bytes());
        let [order, offsets, tiles] = bind_segments(operands.segments);
        let weights = Some(bind(part(operands.weights, ends)));
        let beside = operands.scales_or_places.map(bind);
        let (w, words, scales) = match problem.stored {
            Stored::Values => (weights, None, None),
            Stored::Fp8(_) => (None, weights, beside),
            Stored::Sparse24 => (weights, beside, None),
            Stored::Blocks(_) => (None, weights, None),
        };
        Self {
            x: bind(operands.x),
            order,
            offsets,
            tiles,
            w,
            words,
            scales,
            bias: operands.bias.map(bind),
            out: bind(operands.out),
        }
    }
}
