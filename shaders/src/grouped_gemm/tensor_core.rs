//! The `tensor_core` variant: 16 × 16 × 16 matrix-multiply-accumulate, f16 or bf16 in, f32 sums.
//!
//! A cube of four planes takes 64 rows × 64 columns; each plane owns 16 rows and all columns, so
//! one fragment of x feeds four (gated: eight) products. Sums pass through workgroup memory for
//! bias, activation and the guarded store, because a fragment's layout is the target's secret.
//! The hardware chooses the order of summation, so results differ from the other variants in the
//! last bits. Unproven: it compiles for CUDA and RDNA and has not run on either.

use super::activation::{activate, gated};
use super::*;
use cubecl::cmma;

/// Rows and columns of a cube's tile.
pub(super) const ROWS: usize = 64;

pub(super) const COLUMNS: usize = 64;

/// Edge of one fragment, and inner columns per step.
const EDGE: usize = 16;

const PLANES: usize = ROWS / EDGE;

/// Vectors of four in a row of a fragment, and from one row to the next in workgroup memory: a
/// padding of eight elements spreads the banks and keeps fragments 32-byte aligned.
const STEPS: usize = EDGE / 4;

const STRIDE: usize = STEPS + 2;

/// Bytes CUDA's fragment loads and stores ask of an address.
const ALIGNMENT: usize = 32;

/// What the kernel is specialised on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Spec {
    rows: Source,
    parts: usize,
    activation: Option<Activation>,
    plane: usize,
}

impl Spec {
    fn of(plan: &Plan) -> Self {
        let p = &plan.problem;
        Self {
            rows: p.rows,
            parts: p.parts(),
            activation: p.activation,
            plane: plan.plane as usize,
        }
    }
}

/// Bytes of workgroup memory: both operands, and the sums on their way out.
fn shared_bytes(parts: usize) -> usize {
    (ROWS + COLUMNS * parts) * STRIDE * 4 * 2 + ROWS * COLUMNS * parts * 4
}

/// Whether `device` multiplies this problem's element type in 16 × 16 × 16 fragments.
pub(super) fn supported(problem: &Problem, device: &Capability) -> Result<(), Unsupported> {
    let input = match problem.element {
        Element::F16 => "f16",
        Element::Bf16 => "bf16",
        Element::F32 => "f32",
    };
    let edge = EDGE as u32;
    let shape = device.has_mma((edge, edge, edge), input, "f32");
    let Some((plane, _)) = device.subgroup.filter(|_| shape && input != "f32") else {
        let needs = format!("16 x 16 x 16 {input} matrix instructions for the tensor_core variant");
        let have = format!("{} without them", device.name);
        return Err(Unsupported::new(KERNEL, needs, have));
    };
    let needs = format_args!("{input} weights for the tensor_core variant");
    Unsupported::unless(problem.fp8.is_none(), KERNEL, needs, "fp8 codes")?;
    let plain = problem.layout == WeightLayout::OutIn;
    let needs = "weights of [E, n, k] for the tensor_core variant";
    Unsupported::unless(plain, KERNEL, needs, "weights of [E, k, n]")?;
    let needs = "inner columns that are a multiple of 4 for the tensor_core variant";
    let have = format_args!("a problem with {}", problem.k);
    Unsupported::unless(problem.k.is_multiple_of(4), KERNEL, needs, have)?;
    let cube = (plane * PLANES as u32, shared_bytes(problem.parts()));
    crate::fits_cube(KERNEL, cube, device)
}

/// Copies `lines` rows of `from`, a step of inner columns at `k0`, into workgroup memory.
#[cube]
fn load_tile<F: Float>(
    from: &[Vector<F, Const<4>>],
    order: &ComptimeOption<&[u32]>,
    tile: &mut Shared<[Vector<F, Const<4>>]>,
    sizes: &Sizes,
    at: (usize, usize, usize),
    #[comptime] spec: (Lines, usize, usize, usize),
) {
    let (first, last, k0) = at;
    let (source, lines, units, part_lines) = comptime!(spec);
    let unit = (UNIT_POS_Y * CUBE_DIM_X + UNIT_POS_X) as usize;
    #[unroll]
    for round in 0..comptime!((lines * STEPS).div_ceil(units)) {
        let i = unit + round * units;
        if i < comptime!(lines * STEPS) {
            let line = i / comptime!(STEPS);
            let column = k0 + 4 * (i % comptime!(STEPS));
            let row = match comptime!(source) {
                Lines::Rows(source) => {
                    input_row(order, min(first + line, last - 1), sizes.top_k, source)
                }
                Lines::Weights => {
                    let part = line / comptime!(part_lines);
                    let in_part = min(first + line % comptime!(part_lines), sizes.n - 1);
                    last + part * sizes.n + in_part
                }
            };
            let mut four = Vector::<F, Const<4>>::new(F::new(0.0));
            if column < sizes.k {
                four = from[(row * sizes.k + column) / 4];
            }
            tile[line * comptime!(STRIDE) + i % comptime!(STEPS)] = four;
        }
    }
}

/// Where the lines of a tile come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lines {
    /// Rows of x; `last` ends the expert's.
    Rows(Source),
    /// Weight rows of an expert whose first is `last`; gate lines, then up lines.
    Weights,
}

#[cube(launch_unchecked)]
pub(super) fn grouped_gemm_tensor_core<F: Float>(
    x: &[Vector<F, Const<4>>],
    order: ComptimeOption<&[u32]>,
    tiles: ComptimeOption<&[u32]>,
    w: &[Vector<F, Const<4>>],
    bias: ComptimeOption<&[F]>,
    out: &mut [F],
    sizes: Sizes,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let parts = comptime!(spec.parts);
    let units = comptime!(spec.plane * PLANES);
    let mut x_tile =
        Shared::<[Vector<F, Const<4>>]>::new_aligned_slice(comptime!(ROWS * STRIDE), ALIGNMENT);
    let mut w_tile = Shared::<[Vector<F, Const<4>>]>::new_aligned_slice(
        comptime!(COLUMNS * parts * STRIDE),
        ALIGNMENT,
    );
    let mut staged =
        Shared::<[f32]>::new_aligned_slice(comptime!(ROWS * COLUMNS * parts), ALIGNMENT);

    let (expert, first_row, end) = tile_at(&tiles, CUBE_POS_X as usize, sizes.rows, ROWS);
    let first = CUBE_POS_Y as usize * comptime!(COLUMNS);
    // The same for the whole cube, so the barriers inside are reached by all its units or none.
    if expert >= sizes.slab_first && expert < sizes.slab_last {
        let expert_row = (expert - sizes.slab_first) * sizes.n * parts;
        let source = comptime!(Lines::Rows(spec.rows));
        let sums = zero_sums(parts);
        for k0 in range_stepped(0, sizes.k, comptime!(EDGE)) {
            let rows = comptime!((source, ROWS, units, ROWS));
            let columns = comptime!((Lines::Weights, COLUMNS * parts, units, COLUMNS));
            load_tile::<F>(x, &order, &mut x_tile, &sizes, (first_row, end, k0), rows);
            load_tile::<F>(
                w,
                &order,
                &mut w_tile,
                &sizes,
                (first, expert_row, k0),
                columns,
            );
            sync_cube();
            multiply::<F>(&x_tile, &w_tile, &sums, parts);
            sync_cube();
        }
        stage(&mut staged, &sums, parts);
        sync_cube();
        let at = (first_row, end, first, expert, sizes.n);
        store_staged::<F>(&bias, out, &staged, at, spec);
    }
}

/// The fragments of this plane's sums, one per 16 columns.
#[cube]
fn zero_sums(#[comptime] parts: usize) -> Sequence<cmma::Matrix<f32>> {
    let mut sums = Sequence::<cmma::Matrix<f32>>::new();
    #[unroll]
    for _ in 0..comptime!(COLUMNS * parts / EDGE) {
        sums.push(cmma::Matrix::<f32>::from_value(
            cmma::MatrixIdent::Accumulator,
            comptime!(EDGE),
            comptime!(EDGE),
            comptime!(EDGE),
            cmma::MatrixLayout::Undefined,
            0.0,
        ));
    }
    sums
}

/// One step of every product of this plane.
#[cube]
fn multiply<F: Float>(
    x_tile: &Shared<[Vector<F, Const<4>>]>,
    w_tile: &Shared<[Vector<F, Const<4>>]>,
    sums: &Sequence<cmma::Matrix<f32>>,
    #[comptime] parts: usize,
) {
    let fragment = comptime!(EDGE * STRIDE);
    let stride = comptime!(4 * STRIDE as u32);
    let at = UNIT_POS_Y as usize * fragment;
    let a = cmma::Matrix::<Vector<F, Const<4>>>::from_slice(
        cmma::MatrixIdent::A,
        comptime!(EDGE),
        comptime!(EDGE),
        comptime!(EDGE),
        cmma::MatrixLayout::RowMajor,
        &x_tile[at..at + fragment],
        stride,
    );
    #[unroll]
    for j in 0..comptime!(COLUMNS * parts / EDGE) {
        let at = j * fragment;
        let b = cmma::Matrix::<Vector<F, Const<4>>>::from_slice(
            cmma::MatrixIdent::B,
            comptime!(EDGE),
            comptime!(EDGE),
            comptime!(EDGE),
            cmma::MatrixLayout::ColMajor,
            &w_tile[at..at + fragment],
            stride,
        );
        cmma::execute(&a, &b, &sums[j], &sums[j]);
    }
}

/// Writes this plane's sums to its rows of workgroup memory.
#[cube]
fn stage(staged: &mut Shared<[f32]>, sums: &Sequence<cmma::Matrix<f32>>, #[comptime] parts: usize) {
    let width = comptime!(COLUMNS * parts);
    let len = comptime!(ROWS * width);
    let row = UNIT_POS_Y as usize * comptime!(EDGE * width);
    #[unroll]
    for j in 0..comptime!(width / EDGE) {
        cmma::store(
            &mut staged[row + j * comptime!(EDGE)..len],
            &sums[j],
            comptime!(width as u32),
            cmma::MatrixLayout::RowMajor,
        );
    }
}

/// Bias, activation, gate, and the store of what lies inside the matrix.
#[cube]
fn store_staged<F: Float>(
    bias: &ComptimeOption<&[F]>,
    out: &mut [F],
    staged: &Shared<[f32]>,
    at: (usize, usize, usize, usize, usize),
    #[comptime] spec: Spec,
) {
    let (first_row, end, first, expert, n) = at;
    let parts = comptime!(spec.parts);
    let units = comptime!(spec.plane * PLANES);
    let unit = (UNIT_POS_Y * CUBE_DIM_X + UNIT_POS_X) as usize;
    for i in range_stepped(unit, comptime!(ROWS * COLUMNS), units) {
        let row = first_row + i / comptime!(COLUMNS);
        let line = i % comptime!(COLUMNS);
        let column = first + line;
        if row < end && column < n {
            let from = (i / comptime!(COLUMNS)) * comptime!(COLUMNS * parts) + line;
            let bias_row = expert * n * parts + column;
            let sum = Vector::<f32, Const<1>>::new(with_bias::<F>(bias, staged[from], bias_row));
            let mut value = activate::<Const<1>>(sum, spec.activation).extract(0usize);
            if comptime!(parts == 2) {
                let up = staged[from + comptime!(COLUMNS)];
                let up = with_bias::<F>(bias, up, bias_row + n);
                let up = Vector::<f32, Const<1>>::new(up);
                value *= gated::<Const<1>>(up, spec.activation).extract(0usize);
            }
            out[row * n + column] = F::cast_from(value);
        }
    }
}

pub(super) fn launch(client: &Client, plan: &Plan, slab: &Slab, operands: &Operands) {
    let p = &plan.problem;
    let spec = Spec::of(plan);
    // SAFETY: `plan` checked shapes, fragments, workgroup memory and cube counts; tiles hold rows
    // of their expert only, and rows and columns past the end are not stored.
    unsafe {
        let bound = Bindings::new(plan, slab, operands, [4, 4, 1]);
        grouped_gemm_tensor_core::launch_unchecked(
            client,
            count(plan.cubes()),
            CubeDim::new_2d(plan.plane, PLANES as u32),
            bound.x,
            bound.order.into(),
            bound.tiles.into(),
            bound.weights,
            bound.bias.into(),
            bound.out,
            sizes(plan, slab),
            spec,
            p.element.elem_type(),
        );
    }
}
