//! The `unit` and `gemv` variants: a register tile per unit over tiles in workgroup memory.
//!
//! A cube takes one tile of an expert's rows and a block of columns. Its units load both operands in vectors of four along k,
//! which is also how the register tile reads them: `tm` + `tn` vectors feed 4·`tm`·`tn` multiply-adds. Weights in \[k, n\] are
//! loaded into the same tile element by element, with neighbouring units on neighbouring columns. Rows of workgroup memory are
//! padded by one vector so that neighbouring units use different banks. The kernel stays within WebGPU's default limits: 256
//! units, 16 KiB, 7 bindings, no subgroups. Codes are decoded between their load and the tile, once for all rows of a tile, so 64
//! rows share the cost of a decode, about 64 multiply-adds.

use super::activation::{activate, gated};
use super::blocks;
use super::fp8::{four_of_line, four_of_lines, panels_of};
use super::sparse24::{self, four_of_row, four_of_rows, stack_of};
use super::{
    Activation, Bindings, Conversion, DeviceElement, Fp8Scheme, Operands, Place, Plan, Sizes, Slab,
    Source, Stored, WeightLayout, count, input_row, sizes, tile_at, with_bias,
};
use crate::rounds::looped;
use cubecl::prelude::*;
use moebius_ops::blocks::BlockFormat;

/// The units of a cube, and the register tile of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileShape {
    units_m: usize,
    units_n: usize,
    tm: usize,
    tn: usize,
    /// Vectors of four along k per step.
    steps: usize,
}

impl TileShape {
    /// 64 rows × 64 columns by 8 × 16 units. A unit reads twelve vectors for 128 multiply-adds. With 4 × 4 per unit it would read
    /// eight for 64, which takes a software adapter 1.45 times as long (SwiftShader, two cores of an EPYC).
    pub const UNIT: Self = Self {
        units_m: 8,
        units_n: 16,
        tm: 8,
        tn: 4,
        steps: 4,
    };
    /// 4 rows × 64 columns by 64 units, for few tokens per expert, where reading weights is the bound.
    pub const GEMV: Self = Self {
        units_m: 1,
        units_n: 64,
        tm: 4,
        tn: 1,
        steps: 4,
    };

    /// The number of rows of a tile.
    pub const fn rows(&self) -> usize {
        self.units_m * self.tm
    }

    /// The number of columns of a tile.
    pub const fn columns(&self) -> usize {
        self.units_n * self.tn
    }

    /// The number of units of a cube.
    pub const fn units(&self) -> u32 {
        (self.units_m * self.units_n) as u32
    }

    /// Rounds of loops of one invocation over `k` inner columns.
    pub(super) const fn rounds(&self, k: usize) -> usize {
        looped(k.div_ceil(4 * self.steps), looped(self.steps, 0))
    }

    /// The stride of rows in workgroup memory, in vectors.
    const fn stride(&self) -> usize {
        self.steps + 1
    }

    /// The number of bytes of workgroup memory with `parts` weight tiles.
    pub const fn shared_bytes(&self, parts: usize) -> usize {
        (self.rows() + self.columns() * parts) * self.stride() * 16
    }
}

/// Compile-time parameters of this kernel and of the `naive` one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Spec {
    shape: TileShape,
    pub(super) rows: Source,
    pub(super) layout: WeightLayout,
    pub(super) parts: usize,
    pub(super) activation: Option<Activation>,
    pub(super) stored: Stored,
    conversion: Conversion,
}

impl Spec {
    pub(super) fn of(plan: &Plan) -> Self {
        let p = &plan.problem;
        Self {
            shape: plan.tile,
            rows: p.rows,
            layout: p.layout,
            parts: p.parts(),
            activation: p.activation,
            stored: p.stored,
            conversion: plan.conversion,
        }
    }

    /// The number of elements, or of words of codes, per load of weights, for `lanes` elements per load along k.
    pub(super) fn weight_lanes(&self, lanes: usize) -> usize {
        match (self.stored, self.layout) {
            (Stored::Sparse24, _) => sparse24::LANES,
            (Stored::Values, WeightLayout::OutIn) => lanes,
            _ => 1,
        }
    }
}

/// Four elements of row `row` from `column` on; 0 past the end of the row.
#[cube]
pub(super) fn load_four<F: Float, N: Size>(
    from: &[Vector<F, N>],
    row: usize,
    column: usize,
    k: usize,
) -> Vector<f32, Const<4>> {
    let mut four = Vector::<f32, Const<4>>::new(0.0f32);
    let lanes = N::value();
    if comptime!(lanes == 4) {
        if column < k {
            four = Vector::cast_from(from[(row * k + column) / 4]);
        }
    } else {
        #[unroll]
        for lane in 0..4usize {
            if column + lane < k {
                four.insert(
                    lane,
                    f32::cast_from(from[row * k + column + lane].extract(0usize)),
                );
            }
        }
    }
    four
}

/// Loads the next step of `rows` rows of x into workgroup memory.
#[cube]
fn load_rows<F: Float, N: Size>(
    x: &[Vector<F, N>],
    order: &ComptimeOption<&[u32]>,
    tile: &mut Shared<[Vector<f32, Const<4>>]>,
    sizes: &Sizes,
    place: &Place,
    k0: usize,
    #[comptime] spec: Spec,
) {
    let shape = comptime!(spec.shape);
    let vectors = comptime!(shape.rows() * shape.steps);
    let units = comptime!(shape.units() as usize);
    #[unroll]
    for round in 0..comptime!(vectors.div_ceil(units)) {
        let i = UNIT_POS as usize + round * units;
        if i < vectors {
            let row = i / comptime!(shape.steps);
            let step = i % comptime!(shape.steps);
            let sorted = min(place.row + row, place.end - 1);
            let from = input_row(order, sorted, sizes.top_k, comptime!(spec.rows));
            tile[row * comptime!(shape.stride()) + step] =
                load_four::<F, N>(x, from, k0 + 4 * step, sizes.k);
        }
    }
}

/// Loads the next step of the columns' weights (gate, then up) into workgroup memory.
#[cube]
fn load_weights<F: Float, N: Size>(
    w: &ComptimeOption<&[Vector<F, N>]>,
    words: &ComptimeOption<&[u32]>,
    tile: &mut Shared<[Vector<f32, Const<4>>]>,
    sizes: &Sizes,
    place: &Place,
    k0: usize,
    #[comptime] spec: Spec,
) {
    let expert_row = (place.expert - sizes.slab_first) * sizes.n * comptime!(spec.parts);
    let shape = comptime!(spec.shape);
    let vectors = comptime!(shape.columns() * spec.parts * shape.steps);
    let units = comptime!(shape.units() as usize);
    #[unroll]
    for round in 0..comptime!(vectors.div_ceil(units)) {
        let i = UNIT_POS as usize + round * units;
        if i < vectors {
            match comptime!(spec.layout) {
                WeightLayout::OutIn => {
                    let line = i / comptime!(shape.steps);
                    let step = i % comptime!(shape.steps);
                    let part = line / comptime!(shape.columns());
                    let in_part = place.column + line % comptime!(shape.columns());
                    let column = min(in_part, sizes.n - 1);
                    let row = expert_row + part * sizes.n + column;
                    let inner = k0 + 4 * step;
                    tile[line * comptime!(shape.stride()) + step] =
                        weights_of_row::<F, N>(w, words, sizes, row, inner, spec);
                }
                WeightLayout::InOut => {
                    let line = i % comptime!(shape.columns());
                    let step = i / comptime!(shape.columns());
                    let (row, column) = (k0 + 4 * step, min(place.column + line, sizes.n - 1));
                    tile[line * comptime!(shape.stride()) + step] =
                        weights_of_column::<F, N>(w, words, sizes, expert_row, row, column, spec);
                }
            }
        }
    }
}

/// Four weights of row `row` of \[E, n or 2n, k\] from inner column `column` on; 0 past the end of the row.
#[cube]
fn weights_of_row<F: Float, N: Size>(
    w: &ComptimeOption<&[Vector<F, N>]>,
    words: &ComptimeOption<&[u32]>,
    sizes: &Sizes,
    row: usize,
    column: usize,
    #[comptime] spec: Spec,
) -> Vector<f32, Const<4>> {
    match comptime!(spec.stored) {
        Stored::Sparse24 => {
            let stack = stack_of(sizes, spec.parts, spec.layout);
            four_of_row::<F, N>(w.unwrap(), words.unwrap(), &stack, row, column)
        }
        Stored::Blocks(format) => blocks::four_of_row(words.unwrap(), row, column, sizes.k, format),
        Stored::Values | Stored::Fp8(_) => load_four::<F, N>(w.unwrap(), row, column, sizes.k),
    }
}

/// Four weights of a column of an expert's \[k, n\] from `row` on, 0 past the last; `expert_row` is as [`load_column`] has it.
#[cube]
fn weights_of_column<F: Float, N: Size>(
    w: &ComptimeOption<&[Vector<F, N>]>,
    words: &ComptimeOption<&[u32]>,
    sizes: &Sizes,
    expert_row: usize,
    row: usize,
    column: usize,
    #[comptime] spec: Spec,
) -> Vector<f32, Const<4>> {
    match comptime!(spec.stored) {
        Stored::Sparse24 => {
            let stack = stack_of(sizes, spec.parts, spec.layout);
            // The rows of the experts before, k of each.
            let before = expert_row / sizes.n * sizes.k;
            let end = before + sizes.k;
            let (kept, places) = (w.unwrap(), words.unwrap());
            four_of_rows::<F, N>(kept, places, &stack, before + row, end, column)
        }
        Stored::Values | Stored::Fp8(_) | Stored::Blocks(_) => {
            load_column::<F, N>(w.unwrap(), sizes, expert_row, row, column)
        }
    }
}

/// Four elements of a column of an expert's \[k, n\] weights from `row` on, 0 past the last; `expert_row` is the index of the
/// expert's first output column among those of all experts.
#[cube]
fn load_column<F: Float, N: Size>(
    w: &[Vector<F, N>],
    sizes: &Sizes,
    expert_row: usize,
    row: usize,
    column: usize,
) -> Vector<f32, Const<4>> {
    let mut four = Vector::<f32, Const<4>>::new(0.0f32);
    #[unroll]
    for lane in 0..4usize {
        if row + lane < sizes.k {
            let from = expert_row * sizes.k + (row + lane) * sizes.n + column;
            four.insert(lane, f32::cast_from(w[from].extract(0usize)));
        }
    }
    four
}

/// Decodes the next step of the columns' codes (gate, then up) into workgroup memory.
///
/// Neighbouring units take neighbouring columns, whose words are neighbours, or with weights \[k, n\] share words.
#[cube]
fn load_codes(
    codes: &[u32],
    scales: &[u32],
    tile: &mut Shared<[Vector<f32, Const<4>>]>,
    sizes: &Sizes,
    place: &Place,
    k0: usize,
    #[comptime] spec: Spec,
    #[comptime] fp8: Fp8Scheme,
) {
    let (shape, parts) = comptime!((spec.shape, spec.parts));
    let conversion = comptime!(spec.conversion);
    let lines = comptime!(shape.columns() * parts);
    let units = comptime!(shape.units() as usize);
    let panels = panels_of(sizes, place.expert, parts, spec.layout, fp8.granularity);
    #[unroll]
    for round in 0..comptime!((lines * shape.steps).div_ceil(units)) {
        let i = UNIT_POS as usize + round * units;
        if i < comptime!(lines * shape.steps) {
            let line = i % lines;
            let step = i / lines;
            let part = line / comptime!(shape.columns());
            let column = place.column + line % comptime!(shape.columns());
            let four = match comptime!(spec.layout) {
                WeightLayout::OutIn => {
                    let word = k0 / 4 + step;
                    four_of_line(
                        codes, scales, sizes, &panels, part, column, word, fp8, conversion,
                    )
                }
                WeightLayout::InOut => {
                    let inner = k0 + 4 * step;
                    four_of_lines(codes, scales, sizes, &panels, inner, column, fp8)
                }
            };
            tile[line * comptime!(shape.stride()) + step] = four;
        }
    }
}

/// Decodes the next step of weights \[k, n\] in blocks into workgroup memory. A unit takes four columns of four inner columns, because four
/// neighbours of a row are decoded together.
#[cube]
fn load_blocks(
    words: &[u32],
    tile: &mut Shared<[Vector<f32, Const<4>>]>,
    sizes: &Sizes,
    place: &Place,
    k0: usize,
    #[comptime] spec: Spec,
    #[comptime] format: BlockFormat,
) {
    let shape = comptime!(spec.shape);
    let (across, units) = comptime!((shape.columns() / 4, shape.units() as usize));
    let squares = comptime!(across * shape.steps);
    let expert_row = (place.expert - sizes.slab_first) * sizes.k;
    #[unroll]
    for round in 0..comptime!(squares.div_ceil(units)) {
        let i = UNIT_POS as usize + round * units;
        if i < squares {
            let (first, step) = (4 * (i % across), i / across);
            let mut rows = Array::<Vector<f32, Const<4>>>::new(4usize);
            #[unroll]
            for lane in 0..4usize {
                let (inner, column) = (k0 + 4 * step + lane, place.column + first);
                rows[lane] = Vector::new(0.0f32);
                if inner < sizes.k {
                    let row = expert_row + inner;
                    rows[lane] = blocks::four_of_row(words, row, column, sizes.n, format);
                }
            }
            #[unroll]
            for line in 0..4usize {
                let mut four = Vector::<f32, Const<4>>::new(0.0f32);
                #[unroll]
                for lane in 0..4usize {
                    four.insert(lane, rows[lane].extract(line));
                }
                tile[(first + line) * comptime!(shape.stride()) + step] = four;
            }
        }
    }
}

/// Loads the next step of the columns' weights into workgroup memory, whatever is stored of them.
#[cube]
fn load_step<F: Float, N: Size>(
    w: &ComptimeOption<&[Vector<F, N>]>,
    words: &ComptimeOption<&[u32]>,
    scales: &ComptimeOption<&[u32]>,
    tile: &mut Shared<[Vector<f32, Const<4>>]>,
    sizes: &Sizes,
    place: &Place,
    k0: usize,
    #[comptime] spec: Spec,
) {
    match comptime!(spec.stored) {
        Stored::Fp8(fp8) => {
            let (codes, scales) = (words.unwrap(), scales.unwrap());
            load_codes(codes, scales, tile, sizes, place, k0, spec, fp8);
        }
        Stored::Blocks(format) => {
            if comptime!(spec.layout == WeightLayout::InOut) {
                load_blocks(words.unwrap(), tile, sizes, place, k0, spec, format);
            } else {
                load_weights::<F, N>(w, words, tile, sizes, place, k0, spec);
            }
        }
        Stored::Values | Stored::Sparse24 => {
            load_weights::<F, N>(w, words, tile, sizes, place, k0, spec)
        }
    }
}

/// Adds the products of one step of both tiles to the register tile, in the order of k.
#[cube]
fn multiply(
    x_tile: &Shared<[Vector<f32, Const<4>>]>,
    w_tile: &Shared<[Vector<f32, Const<4>>]>,
    sums: &mut Array<f32>,
    #[comptime] spec: Spec,
) {
    let shape = comptime!(spec.shape);
    let (tm, stride) = comptime!((shape.tm, shape.stride()));
    let tn = comptime!(shape.tn * spec.parts);
    // Not unrolled here, because a browser sends and compiles the text, and a driver unrolls four rounds by itself.
    for step in 0..comptime!(shape.steps) {
        let mut a = Array::<Vector<f32, Const<4>>>::new(tm);
        #[unroll]
        for i in 0..tm {
            let row = UNIT_POS_Y as usize + i * comptime!(shape.units_m);
            a[i] = x_tile[row * stride + step];
        }
        #[unroll]
        for j in 0..tn {
            let column = UNIT_POS_X as usize + j * comptime!(shape.units_n);
            let b = w_tile[column * stride + step];
            #[unroll]
            for i in 0..tm {
                #[unroll]
                for lane in 0..4usize {
                    let sum = sums[i * tn + j];
                    sums[i * tn + j] = fma(a[i].extract(lane), b.extract(lane), sum);
                }
            }
        }
    }
}

#[cube(launch_unchecked)]
fn grouped_gemm_tile<F: Float, N: Size, L: Size>(
    x: &[Vector<F, N>],
    order: ComptimeOption<&[u32]>,
    tiles: ComptimeOption<&[u32]>,
    w: ComptimeOption<&[Vector<F, L>]>,
    words: ComptimeOption<&[u32]>,
    scales: ComptimeOption<&[u32]>,
    bias: ComptimeOption<&[F]>,
    out: &mut [F],
    sizes: Sizes,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let shape = comptime!(spec.shape);
    let parts = comptime!(spec.parts);
    let stride = comptime!(shape.stride());
    let mut x_tile = Shared::<[Vector<f32, Const<4>>]>::new_slice(comptime!(shape.rows() * stride));
    let mut w_tile =
        Shared::<[Vector<f32, Const<4>>]>::new_slice(comptime!(shape.columns() * parts * stride));
    let mut sums = Array::<f32>::new(comptime!(shape.tm * shape.tn * parts));
    #[unroll]
    for i in 0..comptime!(shape.tm * shape.tn * parts) {
        sums[i] = 0.0f32;
    }

    let cube = CUBE_POS_X as usize;
    let (expert, row, end) = tile_at(&tiles, cube, sizes.rows, shape.rows());
    let column = CUBE_POS_Y as usize * comptime!(shape.columns());
    let place = Place {
        expert,
        row,
        end,
        column,
    };
    // The condition is the same for the whole cube, so either all units or none reach the barriers inside.
    if expert >= sizes.slab_first && expert < sizes.slab_last {
        for k0 in range_stepped(0, sizes.k, comptime!(4 * shape.steps)) {
            load_rows::<F, N>(x, &order, &mut x_tile, &sizes, &place, k0, spec);
            load_step::<F, L>(&w, &words, &scales, &mut w_tile, &sizes, &place, k0, spec);
            sync_cube();
            multiply(&x_tile, &w_tile, &mut sums, spec);
            sync_cube();
        }
        store_tile::<F>(&bias, out, &sums, &place, sizes.n, spec);
    }
}

/// Applies bias, activation and gate, and stores the part of the register tile inside the matrix.
#[cube]
fn store_tile<F: Float>(
    bias: &ComptimeOption<&[F]>,
    out: &mut [F],
    sums: &Array<f32>,
    place: &Place,
    n: usize,
    #[comptime] spec: Spec,
) {
    let shape = comptime!(spec.shape);
    let parts = comptime!(spec.parts);
    let expert_row = place.expert * n * parts;
    #[unroll]
    for i in 0..comptime!(shape.tm) {
        let row = place.row + UNIT_POS_Y as usize + i * comptime!(shape.units_m);
        #[unroll]
        for j in 0..comptime!(shape.tn) {
            let column = place.column + UNIT_POS_X as usize + j * comptime!(shape.units_n);
            if row < place.end && column < n {
                let at = comptime!(i * shape.tn * parts + j);
                let sum = with_bias::<F>(bias, sums[at], expert_row + column);
                let sum = Vector::<f32, Const<1>>::new(sum);
                let mut value = activate::<Const<1>>(sum, spec.activation).extract(0usize);
                if comptime!(parts == 2) {
                    let up = expert_row + n + column;
                    let up = with_bias::<F>(bias, sums[comptime!(at + shape.tn)], up);
                    let up = Vector::<f32, Const<1>>::new(up);
                    value *= gated::<Const<1>>(up, spec.activation).extract(0usize);
                }
                out[row * n + column] = F::cast_from(value);
            }
        }
    }
}

pub(super) fn launch(client: &Client, plan: &Plan, slab: &Slab, operands: &Operands) {
    let p = &plan.problem;
    let tile = plan.tile;
    let spec = Spec::of(plan);
    let bound = Bindings::new(p, slab, operands);
    let dim = CubeDim::new_2d(tile.units_n as u32, tile.units_m as u32);
    let (count, lanes) = (count(plan.cubes()), plan.lanes);
    let of_weights = spec.weight_lanes(lanes);
    let (order, tiles, bias) = (bound.order.into(), bound.tiles.into(), bound.bias.into());
    let (w, words, scales) = (bound.w.into(), bound.words.into(), bound.scales.into());
    let (sizes, element) = (sizes(plan, slab), p.element.elem_type());
    // SAFETY: `plan` checked shapes, workgroup memory and cube counts; tiles hold rows of their
    // expert only, and rows and columns past the end are neither read nor stored.
    unsafe {
        grouped_gemm_tile::launch_unchecked(
            client, count, dim, lanes, of_weights, bound.x, order, tiles, w, words, scales, bias,
            bound.out, sizes, spec, element,
        );
    }
}
