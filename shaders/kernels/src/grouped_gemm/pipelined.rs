//! The `pipelined` variant: rows of x, or of x through the sort, times an expert's weights or decoded codes.

use super::activation::{activate, gated};
use super::blocks;
use super::fp8::{panels_of, word_of_line};
use super::fragments::Lines;
use super::pipeline::copies::{after, chunks, copied, copy, end_copies, place, wait_for_stage};
use super::pipeline::products::{
    Sums, begin_products, end_products, first_of_unit, four_sums, zero_sums,
};
use super::pipeline::{CHUNK, Chunk, Extent, Pipeline, Rings, rings};
use super::sparse24::{chunk_of_row, stack_of, whole_loads};
use super::{
    Activation, Bindings, Capability, Conversion, DeviceElement, Fp8Scheme, KERNEL, Matrices,
    Operands, Place, Plan, Problem, Sizes, Slab, Source, Stored, Unsupported, WeightLayout, count,
    input_row, segment, sizes, tensor_core, tile_at, with_bias,
};
use crate::fp8::decode_four;
use cubecl::prelude::*;

/// The pipeline of `problem` on `device`.
pub(super) fn supported(problem: &Problem, device: &Capability) -> Result<Pipeline, Unsupported> {
    let whole = [problem.k, problem.n].map(|columns| columns.is_multiple_of(CHUNK));
    let needs = "rows of multiples of 8 elements for copies of 16 bytes";
    let have = format_args!("{} and {} columns", problem.k, problem.n);
    Unsupported::unless(whole == [true; 2], KERNEL, needs, have)?;
    whole_loads(problem, "pipelined", 2 * CHUNK)?;
    let weights = match problem.layout {
        WeightLayout::OutIn => Lines::Outer,
        WeightLayout::InOut => Lines::Inner,
    };
    let extent = Extent {
        segments: problem.experts,
        rows: problem.row_bound,
        columns: problem.n * problem.parts(),
    };
    Pipeline::of(problem.element, [Lines::Outer, weights], extent, device)
}

/// Compile-time parameters of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spec {
    rows: Source,
    parts: usize,
    activation: Option<Activation>,
    layout: WeightLayout,
    stored: Stored,
    conversion: Conversion,
    of: Pipeline,
}

impl Spec {
    /// Columns of a tile of the result.
    const fn columns(&self) -> usize {
        self.of.tile()[1] / self.parts
    }
}

/// Cubes over the rows of `problem`, and columns of the result that each takes.
pub(super) fn tiles(of: Pipeline, problem: &Problem) -> [usize; 2] {
    let [rows, lines] = of.tile();
    let rows = if problem.dense {
        rows
    } else {
        tensor_core::ROWS
    };
    [super::max_tiles(problem, rows), lines / problem.parts()]
}

/// The tile of this cube. A list has tiles of 64 rows: a cube takes as many as it has rows for, and the cubes of the others have an empty
/// place.
#[cube]
fn place_of(
    tiles: &ComptimeOption<&[u32]>,
    offsets: &ComptimeOption<&[u32]>,
    sizes: &Sizes,
    #[comptime] spec: Spec,
) -> Place {
    let rows = comptime!(spec.of.tile()[0]);
    let (expert, row, end) = tile_at(tiles, CUBE_POS_X as usize, sizes.rows, rows);
    let column = CUBE_POS_Y as usize * comptime!(spec.columns());
    let mut place = Place {
        expert,
        row,
        end,
        column,
    };
    if expert < sizes.slab_first || expert >= sizes.slab_last {
        place.end = row;
    } else if comptime!(offsets.is_some() && rows > tensor_core::ROWS) {
        let (first, last) = segment(offsets, expert, sizes.rows);
        place.end = select((row - first) % rows == 0, min(row + rows, last), row);
    }
    place
}

/// The offsets in chunks of the rows of x that this unit copies; rows past the last repeat the last and are not stored.
#[cube]
fn rows_of(
    order: &ComptimeOption<&[u32]>,
    sizes: &Sizes,
    place: &Place,
    #[comptime] spec: Spec,
) -> Array<usize> {
    let copies = comptime!(spec.of.copies(0));
    let mut from = Array::<usize>::new(copies);
    #[unroll]
    for i in 0..copies {
        let (line, _) = copied(i, 0usize, spec.of);
        let sorted = min(place.row + line, place.end - 1);
        from[i] = input_row(order, sorted, sizes.top_k, comptime!(spec.rows)) * chunks(sizes.k);
    }
    from
}

/// Starts the copies of one step of x.
#[cube]
fn copy_rows(
    x: &[Chunk],
    ring: &mut Shared<[Chunk]>,
    rows: &Array<usize>,
    sizes: &Sizes,
    step: usize,
    slot: usize,
    #[comptime] spec: Spec,
) {
    #[unroll]
    for i in 0..comptime!(spec.of.copies(0)) {
        let (line, chunk) = copied(i, 0usize, spec.of);
        let column = step * comptime!(spec.of.step / CHUNK) + chunk;
        let inside = column < chunks(sizes.k);
        copy(
            x,
            rows[i] + column,
            inside,
            ring,
            slot,
            line,
            chunk,
            0usize,
            spec.of,
        );
    }
}

/// The part and the column in the tile of the weights' line `line`: each plane has the gates of its columns, then their ups.
#[cube]
fn part_of_line(line: usize, #[comptime] spec: Spec) -> (usize, usize) {
    let each = comptime!(spec.of.plane_columns());
    let half = comptime!(each / spec.parts);
    (line % each / half, line / each * half + line % half)
}

/// Starts the copies of one step of the weights.
#[cube]
fn copy_weights(
    w: &[Chunk],
    ring: &mut Shared<[Chunk]>,
    sizes: &Sizes,
    place: &Place,
    step: usize,
    slot: usize,
    #[comptime] spec: Spec,
) {
    let expert = place.expert - sizes.slab_first;
    #[unroll]
    for i in 0..comptime!(spec.of.copies(1)) {
        let (line, chunk) = copied(i, 1usize, spec.of);
        match comptime!(spec.of.lines[1]) {
            Lines::Outer => {
                let (part, column) = part_of_line(line, spec);
                let column = min(place.column + column, sizes.n - 1);
                let row = (expert * comptime!(spec.parts) + part) * sizes.n + column;
                let inner = step * comptime!(spec.of.step / CHUNK) + chunk;
                let from = row * chunks(sizes.k) + inner;
                let inside = inner < chunks(sizes.k);
                copy(w, from, inside, ring, slot, line, chunk, 1usize, spec.of);
            }
            Lines::Inner => {
                let inner = step * comptime!(spec.of.step) + line;
                let column = chunks(place.column) + chunk;
                let from = (expert * sizes.k + inner) * chunks(sizes.n) + column;
                let inside = inner < sizes.k && column < chunks(sizes.n);
                copy(w, from, inside, ring, slot, line, chunk, 1usize, spec.of);
            }
        }
    }
}

/// Puts one step of 2:4 weights together in a stage, or decodes one of weights in blocks.
#[cube]
fn complete_weights<F: Float>(
    kept: &ComptimeOption<&[Chunk]>,
    words: &[u32],
    ring: &mut Shared<[Chunk]>,
    sizes: &Sizes,
    tile: &Place,
    step: usize,
    slot: usize,
    #[comptime] spec: Spec,
) {
    let (of, parts) = comptime!((spec.of, spec.parts));
    let stack = stack_of(sizes, parts, spec.layout);
    let expert = tile.expert - sizes.slab_first;
    #[unroll]
    for i in 0..comptime!(of.copies(1)) {
        let (line, chunk) = copied(i, 1usize, of);
        let (row, from, inside) = match comptime!(of.lines[1]) {
            Lines::Outer => {
                let (part, column) = part_of_line(line, spec);
                let column = min(tile.column + column, sizes.n - 1);
                let from = step * comptime!(of.step / CHUNK) + chunk;
                let row = (expert * parts + part) * sizes.n + column;
                (row, from, from < chunks(sizes.k))
            }
            Lines::Inner => {
                let inner = step * comptime!(of.step) + line;
                let from = chunks(tile.column) + chunk;
                let inside = inner < sizes.k && from < chunks(sizes.n);
                (expert * sizes.k + inner, from, inside)
            }
        };
        let width = match comptime!(of.lines[1]) {
            Lines::Outer => sizes.k,
            Lines::Inner => sizes.n,
        };
        let mut dense = Chunk::new(0u32);
        if inside {
            dense = match comptime!(spec.stored) {
                Stored::Blocks(format) => {
                    blocks::chunk_of_row::<F>(words, row, from, width, format)
                }
                _ => chunk_of_row(kept.unwrap(), words, &stack, row, from),
            };
        }
        let to = slot * comptime!(of.chunks(1)) + place(line, chunk, 1usize, of);
        ring[to] = dense;
    }
}

/// The line of codes, as they lie in memory, and the chunk in it that this unit decodes in a round. Neighbouring units take neighbouring
/// lines, whose words are neighbours.
#[cube]
fn decoded_at(#[comptime] round: usize, #[comptime] of: Pipeline) -> (usize, usize) {
    let lines = comptime!(match of.lines[1] {
        Lines::Outer => of.tile()[1],
        Lines::Inner => of.step,
    });
    let at = UNIT_POS as usize + comptime!(round * of.units());
    (at % lines, at / lines)
}

/// Decodes one step of the codes to a stage. All words are read before the first is written, so that the reads wait together.
#[cube]
fn decode_weights<F: Float>(
    codes: &[u32],
    scales: &[u32],
    ring: &mut Shared<[Chunk]>,
    sizes: &Sizes,
    tile: &Place,
    step: usize,
    slot: usize,
    #[comptime] spec: Spec,
    #[comptime] fp8: Fp8Scheme,
) {
    let (of, copies) = comptime!((spec.of, spec.of.copies(1)));
    let panels = panels_of(sizes, tile.expert, spec.parts, spec.layout, fp8.granularity);
    let mut words = Array::<u32>::new(comptime!(2 * copies));
    let mut factors = Array::<f32>::new(comptime!(2 * copies));
    #[unroll]
    for i in 0..copies {
        let (line, chunk) = decoded_at(i, of);
        let (part, row, first) = match comptime!(of.lines[1]) {
            Lines::Outer => {
                let (part, column) = part_of_line(line, spec);
                let first = step * comptime!(of.step / 4) + chunk * 2;
                (part, tile.column + column, first)
            }
            Lines::Inner => {
                let inner = step * comptime!(of.step) + line;
                (0usize.runtime(), inner, tile.column / 4 + chunk * 2)
            }
        };
        #[unroll]
        for j in 0..2usize {
            let (code, scale) = word_of_line(
                codes,
                scales,
                sizes,
                &panels,
                part,
                row,
                first + j,
                fp8.granularity,
            );
            words[2 * i + j] = code;
            factors[2 * i + j] = scale;
        }
    }
    #[unroll]
    for i in 0..copies {
        let (line, chunk) = decoded_at(i, of);
        let to = slot * comptime!(of.chunks(1)) + place(line, chunk, 1usize, of);
        ring[to] = decoded::<F>(&words, &factors, i, spec, fp8);
    }
}

/// Eight values of words 2·`at` and the next, times their scales.
#[cube]
fn decoded<F: Float>(
    words: &Array<u32>,
    factors: &Array<f32>,
    #[comptime] at: usize,
    #[comptime] spec: Spec,
    #[comptime] fp8: Fp8Scheme,
) -> Chunk {
    let mut chunk = Chunk::new(0u32);
    #[unroll]
    for i in 0..2usize {
        let four = decode_four(words[2 * at + i], fp8.format, comptime!(spec.conversion));
        let four = Vector::<F, Const<4>>::cast_from(four * Vector::new(factors[2 * at + i]));
        #[unroll]
        for j in 0..2usize {
            let mut pair = Vector::<F, Const<2>>::new(F::new(0.0));
            pair.insert(0usize, four.extract(2 * j));
            pair.insert(1usize, four.extract(2 * j + 1));
            chunk.insert(comptime!(2 * i + j), u32::reinterpret(pair));
        }
    }
    chunk
}

/// Starts to fill a stage with both operands' step.
#[cube]
fn fill<F: Float>(
    x: &[Chunk],
    w: &ComptimeOption<&[Chunk]>,
    words: &ComptimeOption<&[u32]>,
    scales: &ComptimeOption<&[u32]>,
    rings: &mut Rings,
    rows: &Array<usize>,
    sizes: &Sizes,
    place: &Place,
    step: usize,
    slot: usize,
    #[comptime] spec: Spec,
) {
    copy_rows(x, &mut rings.left, rows, sizes, step, slot, spec);
    match comptime!(spec.stored) {
        Stored::Values => {
            copy_weights(w.unwrap(), &mut rings.right, sizes, place, step, slot, spec)
        }
        Stored::Sparse24 | Stored::Blocks(_) => complete_weights::<F>(
            w,
            words.unwrap(),
            &mut rings.right,
            sizes,
            place,
            step,
            slot,
            spec,
        ),
        Stored::Fp8(fp8) => decode_weights::<F>(
            words.unwrap(),
            scales.unwrap(),
            &mut rings.right,
            sizes,
            place,
            step,
            slot,
            spec,
            fp8,
        ),
    }
}

#[cube(launch_unchecked)]
fn grouped_gemm_pipelined<F: Float>(
    x: &[Chunk],
    order: ComptimeOption<&[u32]>,
    offsets: ComptimeOption<&[u32]>,
    tiles: ComptimeOption<&[u32]>,
    w: ComptimeOption<&[Chunk]>,
    words: ComptimeOption<&[u32]>,
    scales: ComptimeOption<&[u32]>,
    bias: ComptimeOption<&[F]>,
    out: &mut [Vector<F, Const<2>>],
    sizes: Sizes,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let of = comptime!(spec.of);
    let stages = comptime!(of.stages);
    let mut rings = rings(of);
    let place = place_of(&tiles, &offsets, &sizes, spec);
    // The condition is the same for the whole cube, so either all units or none reach the barriers inside.
    if place.row < place.end {
        let size!(S) = comptime!(of.sums());
        let mut sums = zero_sums::<S>(of);
        let rows = rows_of(&order, &sizes, &place, spec);
        #[unroll]
        for stage in 0..comptime!(stages - 1) {
            let stage = stage.runtime();
            fill::<F>(
                x, &w, &words, &scales, &mut rings, &rows, &sizes, &place, stage, stage, spec,
            );
            end_copies();
        }
        let steps = sizes.k.div_ceil(comptime!(of.step));
        let mut slot = 0usize.runtime();
        let mut free = comptime!(stages - 1).runtime();
        for step in 0..steps {
            wait_for_stage(of);
            begin_products::<S>(&rings, &mut sums, slot, of);
            let ahead = step + comptime!(stages - 1);
            if ahead < steps {
                fill::<F>(
                    x, &w, &words, &scales, &mut rings, &rows, &sizes, &place, ahead, free, spec,
                );
            }
            end_copies();
            end_products::<S>(&rings, &mut sums, slot, of);
            free = slot;
            slot = after(slot, of);
        }
        store::<F, S>(&bias, out, &sums, &place, sizes.n, spec);
    }
}

/// A pair of sums with their bias, that of weight row `row` and the next.
#[cube]
fn biased<F: Float>(
    bias: &ComptimeOption<&[F]>,
    low: f32,
    high: f32,
    row: usize,
) -> Vector<f32, Const<2>> {
    let mut pair = Vector::<f32, Const<2>>::new(0.0f32);
    pair.insert(0usize, with_bias::<F>(bias, low, row));
    pair.insert(1usize, with_bias::<F>(bias, high, row + 1));
    pair
}

/// Applies bias, activation and gate, and stores the sums inside the matrix.
#[cube]
fn store<F: Float, S: Size>(
    bias: &ComptimeOption<&[F]>,
    out: &mut [Vector<F, Const<2>>],
    sums: &Sums<S>,
    place: &Place,
    n: usize,
    #[comptime] spec: Spec,
) {
    let (of, parts) = comptime!((spec.of, spec.parts));
    let [down, across] = comptime!(of.products());
    let each = comptime!(of.plane_columns());
    let (row, line) = first_of_unit(of);
    let first_row = place.row + row;
    let first_column = place.column + line / each * comptime!(each / parts) + line % each;
    #[unroll]
    for i in 0..down {
        #[unroll]
        for j in 0..comptime!(across / parts) {
            let sum = four_sums::<S>(sums, comptime!(i * across + j), of);
            let up = four_sums::<S>(
                sums,
                comptime!(i * across + j + across - across / parts),
                of,
            );
            let column = first_column + j * 8;
            #[unroll]
            for half in 0..2usize {
                let row = first_row + i * 16 + half * 8;
                if row < place.end && column < n {
                    let bias_row = place.expert * n * parts + column;
                    let (low, high) = (sum.extract(2 * half), sum.extract(2 * half + 1));
                    let pair = biased::<F>(bias, low, high, bias_row);
                    let mut value = activate::<Const<2>>(pair, spec.activation);
                    if comptime!(parts == 2) {
                        let (low, high) = (up.extract(2 * half), up.extract(2 * half + 1));
                        let up = biased::<F>(bias, low, high, bias_row + n);
                        value *= gated::<Const<2>>(up, spec.activation);
                    }
                    out[(row * n + column) / 2] = Vector::cast_from(value);
                }
            }
        }
    }
}

pub(super) fn launch(client: &Client, plan: &Plan, slab: &Slab, operands: &Operands) {
    let Some(Matrices::Pipeline(of)) = plan.matrices else {
        return;
    };
    let p = &plan.problem;
    let spec = Spec {
        rows: p.rows,
        parts: p.parts(),
        activation: p.activation,
        layout: p.layout,
        stored: p.stored,
        conversion: plan.conversion,
        of,
    };
    let bound = Bindings::new(p, slab, operands);
    let [units, planes] = of.dim();
    let (order, offsets) = (bound.order.into(), bound.offsets.into());
    let (tiles, bias) = (bound.tiles.into(), bound.bias.into());
    let (sizes, element) = (sizes(plan, slab), p.element.elem_type());
    // SAFETY: `plan` checked shapes, instructions, workgroup memory and cube counts; tiles hold rows of their expert only, chunks past
    // the end of a row or a matrix are not read, and rows and columns past the end are not stored.
    unsafe {
        grouped_gemm_pipelined::launch_unchecked(
            client,
            count(plan.cubes()),
            CubeDim::new_2d(units, planes),
            bound.x,
            order,
            offsets,
            tiles,
            bound.w.into(),
            bound.words.into(),
            bound.scales.into(),
            bias,
            bound.out,
            sizes,
            spec,
            element,
        );
    }
}
