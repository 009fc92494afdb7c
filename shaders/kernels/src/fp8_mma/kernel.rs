//! The kernel of products of codes: a cube of four planes takes 64 rows × one panel of 64 columns.
//!
//! A plane owns 16 rows and all columns of the panel: eight products of 16 × 8, which share the fragment of x. The instruction's
//! registers hold words of four codes, so each lane loads its words directly from memory; there is no workgroup memory and no
//! barrier. CubeCL's [`cmma::MmaDefinition`] tells the positions of a lane's words and sums.

use super::{Operands, PANEL, PLANE, PLANES, Plan, STEP, TILE_ROWS, input};
use crate::grouped_gemm::{input_row, tile_at, with_bias};
use crate::prelude::*;
use cubecl::cmma::{self, MatrixIdent};
use cubecl::prelude::*;
use moebius_ops::fp8::{Fp8Format, LANES_PER_WORD};
use moebius_ops::grouped_gemm::Source;
use moebius_ops::scaling::Fp8Scheme;

/// Rows, columns and inner columns per instruction, and words of the inner columns.
const M: usize = 16;

const N: usize = 8;
const STEP_WORDS: usize = STEP / LANES_PER_WORD;

/// Instructions side by side in a panel.
const FRAGMENTS: usize = PANEL / N;

/// Compile-time parameters of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spec {
    rows: Source,
    x: Fp8Format,
    w: Fp8Format,
    scales_along_k: bool,
}

impl Spec {
    fn of(plan: &Plan) -> Self {
        let p = &plan.problem;
        Self {
            rows: p.product.rows,
            x: p.x.format,
            w: p.w.format,
            scales_along_k: p.scales_along_k(),
        }
    }
}

/// Sizes given at launch.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Sizes {
    n: usize,
    /// Words per row of x.
    words: usize,
    /// Words whose products are summed before scaling.
    segment: usize,
    top_k: usize,
    experts: usize,
    /// The number of rows of a dense product.
    rows: usize,
}

/// Rows and inner columns per scale, and the number of scales down and across one matrix.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Blocks {
    rows: usize,
    columns: usize,
    down: usize,
    across: usize,
}

/// The positions of a lane's words in fragments; codes of either format are as wide as u8.
#[cube]
fn layout() -> cmma::MmaDefinition<u8, u8, f32> {
    cmma::MmaDefinition::<u8, u8, f32>::new(M, N, STEP)
}

/// d = a · b + c on one fragment each.
#[cube]
fn multiply(
    a: Vector<u32, Const<4>>,
    b: Vector<u32, Const<2>>,
    c: Vector<f32, Const<4>>,
    #[comptime] spec: Spec,
) -> Vector<f32, Const<4>> {
    let x_type = comptime!(input(spec.x));
    let w_type = comptime!(input(spec.w));
    // Reinterpreting makes values of the operands; variables would be passed as addresses.
    let a = Vector::<u32, Const<4>>::reinterpret(a);
    let b = Vector::<u32, Const<2>>::reinterpret(b);
    let c = Vector::<f32, Const<4>>::reinterpret(c);
    let out: Vector<f32, Const<4>>;
    gpu_asm!(
        "mma.sync.aligned.m16n8k32.row.col.f32.{x_type}.{w_type}.f32 {d}, {a}, {b}, {c};",
        a = in(_) a, b = in(_) b, c = in(_) c, d = out(_) out,
        options(nomem),
    );
    out
}

/// The offsets of the rows of x that this lane's four registers read; rows past the last repeat the last and are not stored.
#[cube]
fn row_words(
    order: &ComptimeOption<&[u32]>,
    first: usize,
    end: usize,
    sizes: &Sizes,
    #[comptime] source: Source,
) -> Array<usize> {
    let mut from = Array::<usize>::new(4usize);
    #[unroll]
    for r in 0..4usize {
        let at = comptime!(4 * r as u32);
        let (row, _) = layout().position_of_nth(UNIT_POS_X, at, MatrixIdent::A);
        let sorted = min(first + row as usize, end - 1);
        from[r] = input_row(order, sorted, sizes.top_k, source) * sizes.words;
    }
    from
}

/// The fragment of x at word `word` of its rows; words past the last are zeros.
#[cube]
fn x_fragment(x: &[u32], from: &Array<usize>, word: usize, words: usize) -> Vector<u32, Const<4>> {
    let mut a = Vector::<u32, Const<4>>::new(0u32);
    #[unroll]
    for r in 0..4usize {
        let at = comptime!(4 * r as u32);
        let (_, code) = layout().position_of_nth(UNIT_POS_X, at, MatrixIdent::A);
        let word = word + code as usize / LANES_PER_WORD;
        if word < words {
            a.insert(r, x[from[r] + word]);
        }
    }
    a
}

/// The fragment of the panel that starts at `panel`, at word `word` of its columns.
#[cube]
fn w_fragment(
    w: &[u32],
    fragment: usize,
    panel: usize,
    word: usize,
    words: usize,
) -> Vector<u32, Const<2>> {
    let mut b = Vector::<u32, Const<2>>::new(0u32);
    #[unroll]
    for r in 0..2usize {
        let at = comptime!(4 * r as u32);
        let (code, column) = layout().position_of_nth(UNIT_POS_X, at, MatrixIdent::B);
        let word = word + code as usize / LANES_PER_WORD;
        if word < words {
            b.insert(r, w[panel + word * PANEL + fragment * N + column as usize]);
        }
    }
    b
}

#[cube]
fn zeros() -> Array<Vector<f32, Const<4>>> {
    let mut sums = Array::<Vector<f32, Const<4>>>::new(FRAGMENTS);
    #[unroll]
    for j in 0..FRAGMENTS {
        sums[j] = Vector::<f32, Const<4>>::new(0.0f32);
    }
    sums
}

/// The scale of a row of a matrix at an inner column.
#[cube]
fn scale_at(scales: &[f32], blocks: &Blocks, matrix: usize, row: usize, column: usize) -> f32 {
    let down = matrix * blocks.down + row / blocks.rows;
    scales[down * blocks.across + column / blocks.columns]
}

/// The position of a plane's sums: rows, columns, and the first inner column they include.
#[derive(CubeType)]
struct Place {
    first: usize,
    /// One past the expert's last row.
    end: usize,
    expert: usize,
    panel: usize,
    inner: usize,
}

/// The scales of x for the rows of this lane's four sums.
#[cube]
fn x_scales_at(
    scales: &[f32],
    blocks: &Blocks,
    order: &ComptimeOption<&[u32]>,
    place: &Place,
    sizes: &Sizes,
    #[comptime] source: Source,
) -> Vector<f32, Const<4>> {
    let mut four = Vector::<f32, Const<4>>::new(0.0f32);
    #[unroll]
    for i in 0..4usize {
        let at = comptime!(i as u32);
        let (row, _) = layout().position_of_nth(UNIT_POS_X, at, MatrixIdent::Accumulator);
        let sorted = min(place.first + row as usize, place.end - 1);
        let row = input_row(order, sorted, sizes.top_k, source);
        four.insert(
            i,
            scale_at(scales, blocks, 0usize.runtime(), row, place.inner),
        );
    }
    four
}

/// Multiplies sums by the scales of the columns of W and by `x_scales`, one after the other, because the product of the scales
/// may overflow even if the result doesn't.
#[cube]
fn scale(
    sums: &mut Array<Vector<f32, Const<4>>>,
    x_scales: Vector<f32, Const<4>>,
    w_scales: &[f32],
    blocks: &Blocks,
    place: &Place,
    n: usize,
) {
    #[unroll]
    for j in 0..FRAGMENTS {
        let mut four = Vector::<f32, Const<4>>::new(0.0f32);
        #[unroll]
        for i in 0..4usize {
            let at = comptime!(i as u32);
            let (_, column) = layout().position_of_nth(UNIT_POS_X, at, MatrixIdent::Accumulator);
            let column = min(place.panel * PANEL + j * N + column as usize, n - 1);
            four.insert(
                i,
                scale_at(w_scales, blocks, place.expert, column, place.inner),
            );
        }
        sums[j] = sums[j] * x_scales * four;
    }
}

/// Writes the sums that lie inside the matrix, adding the bias of their columns.
#[cube]
fn store(
    out: &mut [f32],
    sums: &Array<Vector<f32, Const<4>>>,
    bias: &ComptimeOption<&[f32]>,
    place: &Place,
    n: usize,
) {
    #[unroll]
    for j in 0..FRAGMENTS {
        #[unroll]
        for i in 0..4usize {
            let at = comptime!(i as u32);
            let (row, column) = layout().position_of_nth(UNIT_POS_X, at, MatrixIdent::Accumulator);
            let row = place.first + row as usize;
            let column = place.panel * PANEL + j * N + column as usize;
            if row < place.end && column < n {
                let sum = sums[j].extract(i);
                out[row * n + column] = with_bias::<f32>(bias, sum, place.expert * n + column);
            }
        }
    }
}

#[cube(launch_unchecked)]
fn fp8_gemm_mma(
    x: &[u32],
    x_scales: &[f32],
    order: ComptimeOption<&[u32]>,
    tiles: ComptimeOption<&[u32]>,
    w: &[u32],
    w_scales: &[f32],
    bias: ComptimeOption<&[f32]>,
    out: &mut [f32],
    sizes: Sizes,
    x_blocks: Blocks,
    w_blocks: Blocks,
    #[comptime] spec: Spec,
) {
    let (expert, tile_row, end) = tile_at(&tiles, CUBE_POS_X as usize, sizes.rows, TILE_ROWS);
    let first = tile_row + UNIT_POS_Y as usize * M;
    let panel = CUBE_POS_Y as usize;
    // The condition is the same for all lanes of a plane, because they multiply together.
    if expert < sizes.experts && first < end {
        let mut place = Place {
            first,
            end,
            expert,
            panel,
            inner: 0usize.runtime(),
        };
        let from = row_words(&order, first, end, &sizes, spec.rows);
        let w_first = (expert * sizes.n.div_ceil(PANEL) + panel) * sizes.words * PANEL;
        let mut totals = zeros();
        for s in 0..sizes.words.div_ceil(sizes.segment) {
            let start = s * sizes.segment;
            let stop = min(start + sizes.segment, sizes.words);
            let mut sums = zeros();
            for word in range_stepped(start, stop, STEP_WORDS) {
                let a = x_fragment(x, &from, word, sizes.words);
                #[unroll]
                for j in 0..FRAGMENTS {
                    let b = w_fragment(w, j, w_first, word, sizes.words);
                    sums[j] = multiply(a, b, sums[j], spec);
                }
            }
            if comptime!(spec.scales_along_k) {
                place.inner = start * LANES_PER_WORD;
                let rows = x_scales_at(x_scales, &x_blocks, &order, &place, &sizes, spec.rows);
                scale(&mut sums, rows, w_scales, &w_blocks, &place, sizes.n);
            }
            #[unroll]
            for j in 0..FRAGMENTS {
                totals[j] += sums[j];
            }
        }
        if comptime!(!spec.scales_along_k) {
            let rows = x_scales_at(x_scales, &x_blocks, &order, &place, &sizes, spec.rows);
            scale(&mut totals, rows, w_scales, &w_blocks, &place, sizes.n);
        }
        store(out, &totals, &bias, &place, sizes.n);
    }
}

/// The blocks of scales of codes in matrices of `shape`.
fn blocks(codes: Fp8Scheme, [rows, columns]: [usize; 2]) -> BlocksLaunch {
    let [r, c] = codes.granularity.block(rows, columns);
    let [down, across] = codes.granularity.scale_shape(rows, columns);
    BlocksLaunch::new(r, c, down, across)
}

/// Enqueues the product: one launch, or none without rows.
pub fn launch(client: &Client, plan: &Plan, operands: Operands) {
    let problem = &plan.problem;
    let p = &problem.product;
    if p.row_bound == 0 {
        return;
    }
    let segment = problem.segment() / LANES_PER_WORD;
    let sizes = SizesLaunch::new(
        p.n,
        problem.row_words(),
        segment,
        p.top_k,
        p.experts,
        p.row_bound,
    );
    let x_blocks = blocks(problem.x, [p.input_rows(), p.k]);
    let w_blocks = blocks(problem.w, [p.n, p.k]);
    let [tiles_x, panels] = plan.cubes();
    let (order, tiles) = operands
        .segments
        .map(|s| (bind(s.order), bind(s.tiles)))
        .unzip();
    launched::note(|| super::name(problem));
    let count = CubeCount::Static(tiles_x as u32, panels as u32, 1);
    let dim = CubeDim::new_2d(PLANE, PLANES as u32);
    let [x, x_scales, out] = [operands.x, operands.x_scales, operands.out].map(bind);
    let [w, w_scales] = [operands.weights, operands.w_scales].map(bind);
    let (order, tiles, bias) = (order.into(), tiles.into(), operands.bias.map(bind).into());
    let spec = Spec::of(plan);
    // SAFETY: the buffers are as long as they are described; `plan` checked instructions, bindings and cube counts. Tiles hold rows
    // of their expert only, words and rows past the end are not loaded, and rows and columns past the end are not stored.
    unsafe {
        fp8_gemm_mma::launch_unchecked(
            client, count, dim, x, x_scales, order, tiles, w, w_scales, bias, out, sizes, x_blocks,
            w_blocks, spec,
        );
    }
}
