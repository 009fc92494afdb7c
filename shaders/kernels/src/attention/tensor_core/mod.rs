//! The `tensor_core` variant: both products in 16 × 16 × 16 matrix instructions, f16 or bf16 in, f32 sums.
//!
//! A cube of four planes takes 64 queries of a head, 16 per plane. Scores leave their fragments through workgroup
//! memory, because a fragment's layout is the target's secret: a unit per query makes them probabilities, and the sums of
//! probabilities times values come back by the same way into the units' registers. Probabilities are rounded to the type of the
//! values. An H100 and an H200 have run it, through CUDA and Vulkan; it compiles for RDNA, too.

mod memory;

use super::operands::{Layout, LayoutLaunch, head_at};
use super::rules::{Scalars, keys_of, scalars, seen, site, trace};
use super::shape::{Shape, Tiling};
use super::softmax::{ended, factors, highest, row_of};
use super::tile::{Block, block_of};
use super::visits::{met_of, span};
use super::{Form, ForwardBuffers, KERNEL, Plan};
use crate::prelude::*;
use crate::rounds::looped;
use cubecl::cmma;
use cubecl::prelude::*;
use memory::{Size, Tiles, load, load_tile, tiles};
use moebius_ops::attention::Problem;

/// Edge of a fragment, and queries per plane.
const EDGE: usize = 16;
const PLANES: usize = 4;
/// Queries per cube, and keys per tile.
const QUERIES: usize = PLANES * EDGE;
const KEYS: usize = 32;
/// Padding of a row of a tile, in vectors of four: eight elements spread the rows over the banks and keep fragments aligned.
const PADDING: usize = 2;
/// The alignment in bytes that CUDA's fragment loads and stores require.
const ALIGNMENT: usize = 32;

/// Compile-time parameters of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spec {
    form: Form,
    shape: Shape,
    /// Units per plane.
    plane: usize,
}

impl Spec {
    const fn units(self) -> usize {
        self.plane * PLANES
    }

    /// The strides of rows of queries and keys, of values and of probabilities, in vectors.
    const fn key_row(self) -> usize {
        self.form.vectors + PADDING
    }

    const fn value_row(self) -> usize {
        self.form.value_vectors + PADDING
    }

    const fn weight_row() -> usize {
        KEYS / 4 + PADDING
    }

    /// The number of f32s of a plane's sums that each unit holds.
    const fn sums(self) -> usize {
        EDGE * self.form.value_vectors * 4 / self.plane
    }
}

/// The shape and grid for `problem`.
pub(super) fn tiling(
    problem: &Problem,
    lanes: usize,
    device: &Capability,
) -> Result<Tiling, Unsupported> {
    let s = problem.sizes();
    let input = match problem.element() {
        Element::F16 => "f16",
        Element::Bf16 => "bf16",
        Element::F32 => "f32",
    };
    let edge = EDGE as u32;
    let instructions = device.has_mma((edge, edge, edge), input, "f32");
    let subgroup = device.subgroup.filter(|_| instructions && input != "f32");
    let Some((plane, _)) = subgroup.filter(|(plane, _)| *plane >= edge) else {
        let needs = format!("16 x 16 x 16 {input} matrix instructions for the tensor_core variant");
        let have = format!("{} without them", device.name);
        return Err(Unsupported::new(KERNEL, needs, have));
    };
    let dims = [s.head_dim, s.value_dim];
    let needs = "heads of whole sixteens for the tensor_core variant";
    let whole = lanes == 4 && dims.iter().all(|dim| dim.is_multiple_of(EDGE));
    Unsupported::unless(whole, KERNEL, needs, format_args!("heads of {dims:?}"))?;
    let shape = Shape {
        units: QUERIES,
        rows: 1,
        keys: KEYS,
        staged: true,
    };
    let padded = |dim: usize| dim + 4 * PADDING;
    let halves =
        (QUERIES + KEYS) * padded(s.head_dim) + KEYS * padded(s.value_dim) + QUERIES * padded(KEYS);
    let words = QUERIES * KEYS + QUERIES + 1;
    let units = plane * PLANES as u32;
    crate::fits_cube(KERNEL, units, 2 * halves + 4 * words, device)?;
    let cubes = s.batch * s.heads * s.queries.div_ceil(QUERIES);
    let grid = Grid::of_cubes(KERNEL, cubes, [plane, PLANES as u32], device)?;
    Ok(Tiling { shape, grid })
}

/// Rounds of loops in one tile of keys: its loads, and the careful sums of all fragments of values.
pub(super) fn rounds(plan: &Plan) -> usize {
    let s = plan.problem.sizes();
    let units = plan.plane as usize * PLANES;
    let load = |dim: usize| looped((QUERIES.max(KEYS) * dim / 4).div_ceil(units), 0);
    let sums = (EDGE * s.value_dim).div_ceil(plan.plane.max(1) as usize);
    load(s.head_dim) + load(s.value_dim) + sums.saturating_mul(looped(KEYS, 0))
}

/// A 16 × 16 fragment of left · right, over `steps` steps of 16 inner columns.
#[cube]
fn product<F: Float>(
    left: &Shared<[Vector<F, Const<4>>]>,
    right: &Shared<[Vector<F, Const<4>>]>,
    left_at: usize,
    right_at: usize,
    #[comptime] steps: usize,
    // The strides in vectors: to the next row, and on the right to the next step.
    #[comptime] left_row: usize,
    #[comptime] right_row: usize,
    #[comptime] right_step: usize,
    #[comptime] layout: cmma::MatrixLayout,
) -> cmma::Matrix<f32> {
    let sum = cmma::Matrix::<f32>::from_value(
        cmma::MatrixIdent::Accumulator,
        comptime!(EDGE),
        comptime!(EDGE),
        comptime!(EDGE),
        cmma::MatrixLayout::Undefined,
        0.0,
    );
    #[unroll]
    for step in 0..steps {
        let from = left_at + step * comptime!(EDGE / 4);
        let a = cmma::Matrix::<Vector<F, Const<4>>>::from_slice(
            cmma::MatrixIdent::A,
            comptime!(EDGE),
            comptime!(EDGE),
            comptime!(EDGE),
            cmma::MatrixLayout::RowMajor,
            &left[from..from + comptime!((EDGE - 1) * left_row + EDGE / 4)],
            comptime!(4 * left_row as u32),
        );
        let from = right_at + step * right_step;
        let b = cmma::Matrix::<Vector<F, Const<4>>>::from_slice(
            cmma::MatrixIdent::B,
            comptime!(EDGE),
            comptime!(EDGE),
            comptime!(EDGE),
            layout,
            &right[from..from + comptime!((EDGE - 1) * right_row + EDGE / 4)],
            comptime!(4 * right_row as u32),
        );
        cmma::execute(&a, &b, &sum, &sum);
    }
    sum
}

/// Writes fragment `column` to the plane's rows of `staged`.
#[cube]
fn stage(staged: &mut Shared<[f32]>, fragment: &cmma::Matrix<f32>, #[comptime] column: usize) {
    let from = UNIT_POS_Y as usize * comptime!(EDGE * KEYS) + comptime!(column * EDGE);
    let len = comptime!(QUERIES * KEYS);
    cmma::store(
        &mut staged[from..len],
        fragment,
        comptime!(KEYS as u32),
        cmma::MatrixLayout::RowMajor,
    );
}

/// Turns a query's scores with a tile into probabilities; returns its new largest score and sum, and the factor by which its
/// earlier sums shrink.
#[cube]
fn soften<F: Float>(
    tiles: &mut Tiles<F>,
    tables: &[u32],
    scalars: &Scalars,
    block: &Block,
    before: f32,
    sum: f32,
    row: usize,
    key: usize,
    full: bool,
    #[comptime] form: Form,
) -> (f32, f32, f32) {
    let lowest = Vector::<f32, Const<4>>::new(f32::min_value());
    let query = min(block.first + row, block.last);
    let mut site = site::<Const<4>>(block.batch, block.head, query);
    let mut scores = Array::<Vector<f32, Const<4>>>::new(comptime!(KEYS / 4));
    let mut top = before;
    #[unroll]
    for i in 0..comptime!(KEYS / 4) {
        site.key = key + comptime!(4 * i);
        let mut raw = Vector::<f32, Const<4>>::new(0.0f32);
        #[unroll]
        for lane in 0..4usize {
            let at = row * comptime!(KEYS) + comptime!(4 * i + lane);
            raw.insert(lane, tiles.staged[at]);
        }
        let raw = raw * Vector::new(scalars.scale);
        let (mut s, _) = trace::<Const<4>>(raw, &site, scalars, tables, form.kinds, 0usize);
        if !full {
            let held = Vector::<i32, Const<4>>::new(scalars.keys as i32 - site.key as i32);
            let seen = seen::<Const<4>>(&site, scalars, tables, form.kinds);
            s = select_many(seen.vec_and(site.lanes.less_than(&held)), s, lowest);
        }
        scores[i] = s;
        top = highest::<Const<4>>(s, top);
    }
    let shrink = (before - top).exp();
    let mut total = sum * shrink;
    #[unroll]
    for i in 0..comptime!(KEYS / 4) {
        site.key = key + comptime!(4 * i);
        let p = (scores[i] - Vector::new(top)).exp();
        let mut p = select_many(scores[i].equal(&lowest), Vector::new(0.0f32), p);
        total += p.vector_sum();
        if comptime!(form.dropout) {
            p *= factors::<Const<4>>(&row_of::<Const<4>>(&site, tables), &site);
        }
        tiles.weights[row * comptime!(Spec::weight_row()) + i] = Vector::cast_from(p);
    }
    (top, total, shrink)
}

/// Shrinks the units' sums, and adds probabilities times values of a tile. An infinite or NaN value is skipped for probabilities
/// of 0, because matrix instructions would pass it on to queries that don't see it.
#[cube]
fn weigh<F: Float>(sums: &mut Array<f32>, tiles: &mut Tiles<F>, #[comptime] spec: Spec) {
    let plane = UNIT_POS_Y as usize;
    let odd = tiles.odd[0].load() != 0u32;
    let (weight_row, value_row) = comptime!((Spec::weight_row(), spec.value_row()));
    let fragments = comptime!(spec.form.value_vectors * 4 / EDGE);
    #[unroll]
    for pair in 0..comptime!(fragments.div_ceil(2)) {
        #[unroll]
        for column in 0..comptime!(if 2 * pair + 1 < fragments { 2 } else { 1 }) {
            let left_at = plane * comptime!(EDGE * weight_row);
            let right_at = comptime!((2 * pair + column) * (EDGE / 4)).runtime();
            let sum = product::<F>(
                &tiles.weights,
                &tiles.values,
                left_at,
                right_at,
                comptime!(KEYS / EDGE),
                weight_row,
                value_row,
                comptime!(EDGE * value_row),
                cmma::MatrixLayout::RowMajor,
            );
            stage(&mut tiles.staged, &sum, column);
        }
        sync_cube();
        let width = comptime!(if 2 * pair + 1 < fragments {
            2 * EDGE
        } else {
            EDGE
        });
        #[unroll]
        for j in 0..comptime!(EDGE * width / spec.plane) {
            let i = UNIT_POS_X as usize + comptime!(j * spec.plane);
            let (row, d) = (plane * EDGE + i / width, i % width);
            let mut sum = tiles.staged[row * comptime!(KEYS) + d];
            if odd {
                let column = d + comptime!(2 * pair * EDGE);
                sum = careful::<F>(tiles, row, column, spec);
            }
            let own = comptime!(2 * pair * EDGE * EDGE / spec.plane + j);
            sums[own] = fma(sums[own], tiles.factors[row], sum);
        }
        sync_cube();
    }
}

/// One sum of a query's probabilities times values, skipping probabilities of 0.
#[cube]
fn careful<F: Float>(
    tiles: &mut Tiles<F>,
    row: usize,
    column: usize,
    #[comptime] spec: Spec,
) -> f32 {
    let mut sum = 0.0f32;
    for key in 0..comptime!(KEYS) {
        let four = tiles.weights[row * comptime!(Spec::weight_row()) + key / 4];
        let p = element::<F>(four, key % 4);
        if p != 0.0f32 {
            let four = tiles.values[key * comptime!(spec.value_row()) + column / 4];
            sum = fma(p, element::<F>(four, column % 4), sum);
        }
    }
    sum
}

/// Element `lane` of four, where `lane` isn't known at compile time.
#[cube]
fn element<F: Float>(four: Vector<F, Const<4>>, lane: usize) -> f32 {
    let mut found = 0.0f32;
    #[unroll]
    for i in 0..4usize {
        found = select(lane == i, f32::cast_from(four.extract(i)), found);
    }
    found
}

/// Computes the plane's scores with a tile.
#[cube]
fn score<F: Float>(tiles: &mut Tiles<F>, #[comptime] spec: Spec) {
    let row = comptime!(spec.key_row());
    #[unroll]
    for column in 0..comptime!(KEYS / EDGE) {
        let left_at = UNIT_POS_Y as usize * comptime!(EDGE * row);
        let right_at = comptime!(column * EDGE * row).runtime();
        let sum = product::<F>(
            &tiles.queries,
            &tiles.keys,
            left_at,
            right_at,
            comptime!(spec.form.vectors * 4 / EDGE),
            row,
            row,
            comptime!(EDGE / 4),
            cmma::MatrixLayout::ColMajor,
        );
        stage(&mut tiles.staged, &sum, column);
    }
}

/// Processes the cube's queries with the tiles of keys that they may see; returns the largest score and the sum of the unit's
/// query, and the number of visited tiles.
#[cube]
fn meet<F: Float>(
    k: &[Vector<F, Const<4>>],
    v: &[Vector<F, Const<4>>],
    tables: &[u32],
    tiles: &mut Tiles<F>,
    sums: &mut Array<f32>,
    block: &Block,
    scalars: &Scalars,
    layout: &Layout,
    #[comptime] spec: Spec,
) -> (f32, f32, u32) {
    let (form, kinds) = comptime!((spec.form, spec.form.kinds));
    let own = UNIT_POS_Y as usize * comptime!(EDGE) + UNIT_POS_X as usize;
    let mut top = f32::min_value();
    let mut total = 0.0f32;
    let mut visits = 0u32;
    let span = span(block.batch, block.first, block.last, scalars, tables, kinds);
    let (near, far) = keys_of(block.first, block.last, scalars, kinds);
    for at in near / comptime!(KEYS)..far.div_ceil(comptime!(KEYS)) {
        let key = at * comptime!(KEYS);
        let held = min(comptime!(KEYS), scalars.keys - key);
        let met = met_of(&span, key, key + held - 1, scalars, tables, kinds);
        // `met` is the same for the whole cube, so either all units or none reach the barriers inside.
        if met > 0 {
            visits += 1;
            tiles.odd[0].store(0u32);
            sync_cube();
            load_tile::<F>(k, v, tiles, block, layout, key, held, spec);
            sync_cube();
            score::<F>(tiles, spec);
            sync_cube();
            if UNIT_POS_X < comptime!(EDGE as u32) {
                let full = met == 2 && held == comptime!(KEYS);
                let (raised, sum, shrink) = soften::<F>(
                    tiles, tables, scalars, block, top, total, own, key, full, form,
                );
                top = raised;
                total = sum;
                tiles.factors[own] = shrink;
            }
            sync_cube();
            weigh::<F>(sums, tiles, spec);
        }
    }
    (top, total, visits)
}

#[cube(launch_unchecked)]
fn attention_tensor_core<F: Float>(
    q: &[Vector<F, Const<4>>],
    k: &[Vector<F, Const<4>>],
    v: &[Vector<F, Const<4>>],
    tables: &[u32],
    o: &mut [F],
    lse: &mut [f32],
    scalars: Scalars,
    layout: Layout,
    #[comptime] spec: Spec,
    #[define(F)] _element: ElemType,
) {
    let mut tiles = tiles::<F>(spec);
    let heads = lse.len() / scalars.queries;
    if CUBE_POS < heads * scalars.queries.div_ceil(comptime!(QUERIES)) {
        let block = block_of(CUBE_POS, heads, &scalars, &layout, spec.shape);
        let own = UNIT_POS_Y as usize * comptime!(EDGE) + UNIT_POS_X as usize;
        let first = head_at(&layout.q, block.batch, block.head) + block.first * layout.q.row;
        let held = block.last + 1 - block.first;
        let size = comptime!(Size {
            rows: QUERIES,
            width: spec.form.vectors,
            units: spec.units()
        });
        let step = layout.q.row;
        load::<F>(
            q,
            &mut tiles.queries,
            &tiles.odd,
            first,
            step,
            held,
            size,
            false,
        );
        let mut sums = Array::<f32>::new(comptime!(spec.sums()));
        #[unroll]
        for i in 0..comptime!(spec.sums()) {
            sums[i] = 0.0f32;
        }
        let (top, total, visits) = meet::<F>(
            k, v, tables, &mut tiles, &mut sums, &block, &scalars, &layout, spec,
        );
        sync_cube();
        if UNIT_POS_X < comptime!(EDGE as u32) {
            tiles.factors[own] = finish(
                tables, lse, &block, &scalars, own, top, total, visits, spec.form,
            );
        }
        sync_cube();
        store::<F>(&sums, &tiles.factors, o, &block, &scalars, spec);
    }
}

/// Writes a query's log-sum-exp; returns the factor of its sums.
#[cube]
fn finish(
    tables: &[u32],
    lse: &mut [f32],
    block: &Block,
    scalars: &Scalars,
    row: usize,
    top: f32,
    total: f32,
    visits: u32,
    #[comptime] form: Form,
) -> f32 {
    let (share, mut log) = ended(top, total, block.head, scalars, tables, form);
    if comptime!(form.counted) {
        log = f32::cast_from(visits);
    }
    if block.first + row <= block.last {
        let head = (block.batch * scalars.heads + block.head) * scalars.queries;
        lse[head + block.first + row] = log;
    }
    share
}

/// Writes o.
#[cube]
fn store<F: Float>(
    sums: &Array<f32>,
    share: &Shared<[f32]>,
    o: &mut [F],
    block: &Block,
    scalars: &Scalars,
    #[comptime] spec: Spec,
) {
    let dim = comptime!(spec.form.value_vectors * 4);
    let fragments = comptime!(dim / EDGE);
    let head = (block.batch * scalars.heads + block.head) * scalars.queries;
    #[unroll]
    for pair in 0..comptime!(fragments.div_ceil(2)) {
        let width = comptime!(if 2 * pair + 1 < fragments {
            2 * EDGE
        } else {
            EDGE
        });
        #[unroll]
        for j in 0..comptime!(EDGE * width / spec.plane) {
            let i = UNIT_POS_X as usize + comptime!(j * spec.plane);
            let row = UNIT_POS_Y as usize * comptime!(EDGE) + i / width;
            let sum = sums[comptime!(2 * pair * EDGE * EDGE / spec.plane + j)];
            if block.first + row <= block.last {
                let to = (head + block.first + row) * dim + comptime!(2 * pair * EDGE) + i % width;
                o[to] = F::cast_from(sum * share[row]);
            }
        }
    }
}

pub(super) fn launch(
    client: &Client,
    plan: &Plan,
    tiling: Tiling,
    buffers: ForwardBuffers,
    tables: Handle,
) {
    let p = &plan.problem;
    let element = p.element();
    let [(q, of_q), (k, of_k), (v, of_v)] = buffers.operands(plan);
    let Tiling { shape, grid } = tiling;
    launched::note(|| plan.name("attention_tensor_core"));
    let spec = Spec {
        form: plan.form(),
        shape,
        plane: plan.plane as usize,
    };
    // SAFETY: the buffers are as long as they are described; keys and table entries lie inside of them; cubes past the last return,
    // and rows past the last query are not stored.
    unsafe {
        attention_tensor_core::launch_unchecked(
            client,
            grid.count(),
            CubeDim::new_2d(plan.plane, PLANES as u32),
            q,
            k,
            v,
            bind(tables),
            bind(buffers.o),
            bind(buffers.lse),
            scalars(p),
            LayoutLaunch::new(of_q, of_k, of_v),
            spec,
            element.elem_type(),
        );
    }
}
