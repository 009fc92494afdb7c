//! The `tensor_core` variant: matrix-multiply-accumulate of 16 × 16 × 16 or 8 × 8 × 8, f16 or bf16 in, f32 sums.
//!
//! Codes are decoded and multiplied by their scale into the element type when they are loaded to workgroup memory. The hardware
//! chooses the order of summation, so results differ from those of other variants in the last bits.

use super::activation::{activate, gated};
use super::blocks;
use super::fp8::{four_of_line, panels_of};
use super::fragments::{ALIGNMENT, Fragments, Lines, TILE, multiply, stage, zero_sums};
use super::sparse24::{four_of_row, stack_of, whole_loads};
use super::{
    Activation, Bindings, Capability, Conversion, DeviceElement, Fp8Scheme, KERNEL, Matrices,
    Operands, Place, Plan, Problem, Sizes, Slab, Source, Stored, Unsupported, WeightLayout, count,
    input_row, sizes, tile_at, with_bias,
};
use cubecl::cmma;
use cubecl::prelude::*;

/// Rows and columns of a cube's tile.
pub(super) const ROWS: usize = TILE;

pub(super) const COLUMNS: usize = TILE;

/// Compile-time parameters of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Spec {
    rows: Source,
    weights: Lines,
    parts: usize,
    activation: Option<Activation>,
    layout: WeightLayout,
    stored: Stored,
    conversion: Conversion,
    fragments: Fragments,
}

impl Spec {
    fn of(plan: &Plan, fragments: Fragments) -> Self {
        let p = &plan.problem;
        Self {
            rows: p.rows,
            weights: weight_lines(p),
            parts: p.parts(),
            activation: p.activation,
            layout: p.layout,
            stored: p.stored,
            conversion: plan.conversion,
            fragments,
        }
    }

    /// The number of columns of the weights of a tile, gate and up.
    const fn columns(&self) -> usize {
        COLUMNS * self.parts
    }
}

fn weight_lines(problem: &Problem) -> Lines {
    match problem.layout {
        WeightLayout::OutIn => Lines::Outer,
        WeightLayout::InOut => Lines::Inner,
    }
}

/// The number of bytes of workgroup memory: both operands, and the sums on their way to the store.
fn shared_bytes(problem: &Problem, fragments: Fragments) -> usize {
    let columns = COLUMNS * problem.parts();
    let vectors =
        Lines::Outer.vectors(fragments, ROWS) + weight_lines(problem).vectors(fragments, columns);
    vectors * 4 * problem.element.bytes() + fragments.staged(problem.parts()) * 4
}

/// The fragments of `device` for this problem.
pub(super) fn supported(problem: &Problem, device: &Capability) -> Result<Fragments, Unsupported> {
    let fragments = Fragments::of(problem.element, KERNEL, device)?;
    let fours = |columns: usize, what: &str| {
        let needs = format!("{what} that are a multiple of 4 for the tensor_core variant");
        let have = format_args!("a problem with {columns}");
        Unsupported::unless(columns.is_multiple_of(4), KERNEL, needs, have)
    };
    fours(problem.k, "inner columns")?;
    if problem.layout == WeightLayout::InOut {
        fours(problem.n, "columns of weights of [E, k, n]")?;
    }
    whole_loads(problem, "tensor_core", 8)?;
    let memory = shared_bytes(problem, fragments);
    crate::fits_cube(KERNEL, fragments.units() as u32, memory, device)?;
    Ok(fragments)
}

/// Copies inner columns from `k0` of the rows of x into workgroup memory; rows past the last repeat the last.
#[cube]
fn load_rows<F: Float>(
    x: &[Vector<F, Const<4>>],
    order: &ComptimeOption<&[u32]>,
    tile: &mut Shared<[Vector<F, Const<4>>]>,
    sizes: &Sizes,
    place: &Place,
    k0: usize,
    #[comptime] spec: Spec,
) {
    let (fragments, units) = comptime!((spec.fragments, spec.fragments.units()));
    let steps = comptime!(fragments.edge / 4);
    #[unroll]
    for round in 0..comptime!((ROWS * steps).div_ceil(units)) {
        let i = UNIT_POS as usize + round * units;
        if i < comptime!(ROWS * steps) {
            let line = i / steps;
            let column = k0 + 4 * (i % steps);
            let sorted = min(place.row + line, place.end - 1);
            let row = input_row(order, sorted, sizes.top_k, comptime!(spec.rows));
            let mut four = Vector::<F, Const<4>>::new(F::new(0.0));
            if column < sizes.k {
                four = x[(row * sizes.k + column) / 4];
            }
            tile[line * comptime!(Lines::Outer.stride(fragments, ROWS)) + i % steps] = four;
        }
    }
}

/// Copies inner columns from `k0` of the weights of the tile's columns, gate and up, into workgroup memory.
#[cube]
fn load_weights<F: Float>(
    w: &ComptimeOption<&[Vector<F, Const<4>>]>,
    words: &ComptimeOption<&[u32]>,
    tile: &mut Shared<[Vector<F, Const<4>>]>,
    sizes: &Sizes,
    place: &Place,
    k0: usize,
    #[comptime] spec: Spec,
) {
    let expert_row = (place.expert - sizes.slab_first) * sizes.n * comptime!(spec.parts);
    let (fragments, units) = comptime!((spec.fragments, spec.fragments.units()));
    let vectors = comptime!(spec.columns() * fragments.edge / 4);
    let stride = comptime!(spec.weights.stride(fragments, spec.columns()));
    #[unroll]
    for round in 0..comptime!(vectors.div_ceil(units)) {
        let i = UNIT_POS as usize + round * units;
        if i < vectors {
            let mut four = Vector::<F, Const<4>>::new(F::new(0.0));
            let across = comptime!(match spec.weights {
                Lines::Outer => fragments.edge / 4,
                Lines::Inner => COLUMNS / 4,
            });
            let line = i / across;
            match comptime!(spec.weights) {
                Lines::Outer => {
                    let part = line / comptime!(COLUMNS);
                    let in_part = min(place.column + line % comptime!(COLUMNS), sizes.n - 1);
                    let row = expert_row + part * sizes.n + in_part;
                    let column = k0 + 4 * (i % across);
                    if column < sizes.k {
                        four = weights_of_row::<F>(w, words, sizes, row, column, sizes.k, spec);
                    }
                }
                Lines::Inner => {
                    let column = place.column + 4 * (i % across);
                    if k0 + line < sizes.k && column < sizes.n {
                        let row = (place.expert - sizes.slab_first) * sizes.k + k0 + line;
                        four = weights_of_row::<F>(w, words, sizes, row, column, sizes.n, spec);
                    }
                }
            }
            tile[line * stride + i % across] = four;
        }
    }
}

/// Four weights from `column` on of row `row` of W as it lies in memory, which has `width` in a row.
#[cube]
fn weights_of_row<F: Float>(
    w: &ComptimeOption<&[Vector<F, Const<4>>]>,
    words: &ComptimeOption<&[u32]>,
    sizes: &Sizes,
    row: usize,
    column: usize,
    width: usize,
    #[comptime] spec: Spec,
) -> Vector<F, Const<4>> {
    match comptime!(spec.stored) {
        Stored::Sparse24 => {
            let stack = stack_of(sizes, spec.parts, spec.layout);
            let (kept, places) = (w.unwrap(), words.unwrap());
            let four = four_of_row::<F, Const<4>>(kept, places, &stack, row, column);
            Vector::<F, Const<4>>::cast_from(four)
        }
        Stored::Blocks(format) => {
            let four = blocks::four_of_row(words.unwrap(), row, column, width, format);
            Vector::<F, Const<4>>::cast_from(four)
        }
        Stored::Values | Stored::Fp8(_) => {
            let w = w.unwrap();
            w[(row * width + column) / 4]
        }
    }
}

/// Decodes inner columns from `k0` of the codes of the tile's columns into workgroup memory. Neighbouring units take neighbouring rows of the
/// weights as they lie in memory, whose words are neighbours.
#[cube]
fn load_codes<F: Float>(
    codes: &[u32],
    scales: &[u32],
    tile: &mut Shared<[Vector<F, Const<4>>]>,
    sizes: &Sizes,
    place: &Place,
    k0: usize,
    #[comptime] spec: Spec,
    #[comptime] fp8: Fp8Scheme,
) {
    let conversion = comptime!(spec.conversion);
    let (fragments, units) = comptime!((spec.fragments, spec.fragments.units()));
    let vectors = comptime!(spec.columns() * fragments.edge / 4);
    let lines = comptime!(match spec.weights {
        Lines::Outer => spec.columns(),
        Lines::Inner => fragments.edge,
    });
    let stride = comptime!(spec.weights.stride(fragments, spec.columns()));
    let panels = panels_of(
        sizes,
        place.expert,
        spec.parts,
        spec.layout,
        fp8.granularity,
    );
    #[unroll]
    for round in 0..comptime!(vectors.div_ceil(units)) {
        let i = UNIT_POS as usize + round * units;
        if i < vectors {
            let (line, at) = (i % lines, i / lines);
            let (part, row, word) = match comptime!(spec.weights) {
                Lines::Outer => (
                    line / comptime!(COLUMNS),
                    place.column + line % comptime!(COLUMNS),
                    k0 / 4 + at,
                ),
                Lines::Inner => (0usize.runtime(), k0 + line, place.column / 4 + at),
            };
            let four = four_of_line(
                codes, scales, sizes, &panels, part, row, word, fp8, conversion,
            );
            tile[line * stride + at] = Vector::cast_from(four);
        }
    }
}

#[cube(launch_unchecked)]
pub(super) fn grouped_gemm_tensor_core<F: Float>(
    x: &[Vector<F, Const<4>>],
    order: ComptimeOption<&[u32]>,
    tiles: ComptimeOption<&[u32]>,
    w: ComptimeOption<&[Vector<F, Const<4>>]>,
    words: ComptimeOption<&[u32]>,
    scales: ComptimeOption<&[u32]>,
    bias: ComptimeOption<&[F]>,
    out: &mut [F],
    sizes: Sizes,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let (parts, fragments) = comptime!((spec.parts, spec.fragments));
    let columns = comptime!(spec.columns());
    let mut x_tile = Shared::<[Vector<F, Const<4>>]>::new_aligned_slice(
        comptime!(Lines::Outer.vectors(fragments, ROWS)),
        ALIGNMENT,
    );
    let mut w_tile = Shared::<[Vector<F, Const<4>>]>::new_aligned_slice(
        comptime!(spec.weights.vectors(fragments, columns)),
        ALIGNMENT,
    );
    let mut staged =
        Shared::<[f32]>::new_aligned_slice(comptime!(fragments.staged(parts)), ALIGNMENT);

    let (expert, row, end) = tile_at(&tiles, CUBE_POS_X as usize, sizes.rows, ROWS);
    let column = CUBE_POS_Y as usize * comptime!(COLUMNS);
    let place = Place {
        expert,
        row,
        end,
        column,
    };
    // The condition is the same for the whole cube, so either all units or none reach the barriers inside.
    if expert >= sizes.slab_first && expert < sizes.slab_last {
        let sums = zero_sums(columns, fragments);
        for k0 in range_stepped(0, sizes.k, comptime!(fragments.edge)) {
            load_rows::<F>(x, &order, &mut x_tile, &sizes, &place, k0, spec);
            match comptime!(spec.stored) {
                Stored::Values | Stored::Sparse24 | Stored::Blocks(_) => {
                    load_weights::<F>(&w, &words, &mut w_tile, &sizes, &place, k0, spec)
                }
                Stored::Fp8(fp8) => {
                    let (codes, scales) = (words.unwrap(), scales.unwrap());
                    load_codes::<F>(codes, scales, &mut w_tile, &sizes, &place, k0, spec, fp8);
                }
            }
            sync_cube();
            let lines = comptime!([Lines::Outer, spec.weights]);
            multiply::<F>(&x_tile, &w_tile, &sums, lines, columns, fragments);
            sync_cube();
        }
        store::<F>(&bias, out, &mut staged, &sums, &place, sizes.n, spec);
    }
}

/// Applies bias, activation and gate, and stores the sums inside the matrix, one fragment of each plane at a time.
#[cube]
fn store<F: Float>(
    bias: &ComptimeOption<&[F]>,
    out: &mut [F],
    staged: &mut Shared<[f32]>,
    sums: &Sequence<cmma::Matrix<f32>>,
    place: &Place,
    n: usize,
    #[comptime] spec: Spec,
) {
    let (parts, fragments) = comptime!((spec.parts, spec.fragments));
    let (edge, across) = comptime!((fragments.edge, COLUMNS / fragments.edge));
    let area = comptime!(edge * edge);
    let plane = UNIT_POS_Y as usize;
    #[unroll]
    for j in 0..across {
        #[unroll]
        for part in 0..parts {
            let sum = &sums[comptime!(j + part * across)];
            stage(staged, sum, part, parts, fragments);
        }
        sync_cube();
        for i in range_stepped(UNIT_POS_X as usize, area, comptime!(fragments.plane)) {
            let row = place.row + plane * edge + i / edge;
            let column = place.column + comptime!(j * edge) + i % edge;
            if row < place.end && column < n {
                let from = plane * comptime!(area * parts) + i;
                let bias_row = place.expert * n * parts + column;
                let sum = with_bias::<F>(bias, staged[from], bias_row);
                let sum = Vector::<f32, Const<1>>::new(sum);
                let mut value = activate::<Const<1>>(sum, spec.activation).extract(0usize);
                if comptime!(parts == 2) {
                    let up = with_bias::<F>(bias, staged[from + area], bias_row + n);
                    let up = Vector::<f32, Const<1>>::new(up);
                    value *= gated::<Const<1>>(up, spec.activation).extract(0usize);
                }
                out[row * n + column] = F::cast_from(value);
            }
        }
        sync_cube();
    }
}

pub(super) fn launch(client: &Client, plan: &Plan, slab: &Slab, operands: &Operands) {
    let Some(Matrices::Fragments(fragments)) = plan.matrices else {
        return;
    };
    let p = &plan.problem;
    let spec = Spec::of(plan, fragments);
    let bound = Bindings::new(p, slab, operands);
    let dim = CubeDim::new_2d(fragments.plane as u32, fragments.planes() as u32);
    let count = count(plan.cubes());
    let (order, tiles, bias) = (bound.order.into(), bound.tiles.into(), bound.bias.into());
    let (w, words, scales) = (bound.w.into(), bound.words.into(), bound.scales.into());
    let (sizes, element) = (sizes(plan, slab), p.element.elem_type());
    // SAFETY: `plan` checked shapes, fragments, workgroup memory and cube counts; tiles hold rows
    // of their expert only, and rows and columns past the end are not stored.
    unsafe {
        grouped_gemm_tensor_core::launch_unchecked(
            client, count, dim, bound.x, order, tiles, w, words, scales, bias, bound.out, sizes,
            spec, element,
        );
    }
}
