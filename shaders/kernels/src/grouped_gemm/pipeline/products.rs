//! Products of one stage: `mma` of a plane, or `wgmma` of a group of four planes.

use super::copies::place;
use super::{Chunk, Instruction, K, Lines, M, N, Pipeline, Rings};
use cubecl::cmma::{MatrixIdent, MmaDefinition};
use cubecl::prelude::*;

/// Four sums of a unit in a fragment of 16 × 8: two neighbours in a row, and those eight rows below.
pub(in crate::grouped_gemm) type Four = Vector<f32, Const<4>>;

/// The sums of a unit.
#[derive(CubeType)]
pub(in crate::grouped_gemm) struct Sums<S: Size> {
    /// Fragment after fragment, row by row of fragments; of a plane's instructions.
    fragments: Array<Four>,
    /// The same in one vector; of a group's instructions.
    all: Vector<f32, S>,
}

#[cube]
pub(in crate::grouped_gemm) fn zero_sums<S: Size>(#[comptime] of: Pipeline) -> Sums<S> {
    let [down, across] = comptime!(of.products());
    let mut fragments = Array::<Four>::new(comptime!(down * across));
    #[unroll]
    for i in 0..comptime!(down * across) {
        fragments[i] = Four::new(0.0f32);
    }
    Sums::<S> {
        fragments,
        all: Vector::<f32, S>::new(0.0f32),
    }
}

/// Begins to multiply one stage. A group's instructions run on by themselves until [`end_products`]: what stands between waits for
/// nothing, and must not read the sums.
#[cube]
pub(in crate::grouped_gemm) fn begin_products<S: Size>(
    rings: &Rings,
    sums: &mut Sums<S>,
    slot: usize,
    #[comptime] of: Pipeline,
) {
    if comptime!(of.by == Instruction::Group) {
        sums.all = begin_group::<S>(rings, sums.all, slot, of);
    }
}

/// Ends the products of one stage.
#[cube]
pub(in crate::grouped_gemm) fn end_products<S: Size>(
    rings: &Rings,
    sums: &mut Sums<S>,
    slot: usize,
    #[comptime] of: Pipeline,
) {
    match comptime!(of.by) {
        Instruction::Plane => multiply_stage(rings, &mut sums.fragments, slot, of),
        Instruction::Group => {
            sums.all = end_group::<S>(sums.all, of);
        }
    }
}

/// The sums of fragment `at` of this unit's plane.
#[cube]
pub(in crate::grouped_gemm) fn four_sums<S: Size>(
    sums: &Sums<S>,
    #[comptime] at: usize,
    #[comptime] of: Pipeline,
) -> Four {
    match comptime!(of.by) {
        Instruction::Plane => sums.fragments[at],
        Instruction::Group => {
            let mut four = Four::new(0.0f32);
            #[unroll]
            for i in 0..4usize {
                four.insert(i, sums.all.extract(comptime!(4 * at + i)));
            }
            four
        }
    }
}

/// The first row and column of this unit's sums in the tile. Source: PTX ISA, "Matrix fragments for mma.m16n8k16" and "Register fragments
/// for wgmma".
#[cube]
pub(in crate::grouped_gemm) fn first_of_unit(#[comptime] of: Pipeline) -> (usize, usize) {
    let lane = UNIT_POS_X as usize;
    let plane = UNIT_POS_Y as usize;
    let [down, across] = comptime!(of.each);
    let planes = comptime!(of.planes[1]);
    (
        plane / planes * down + lane / 4,
        plane % planes * across + lane % 4 * 2,
    )
}

/// Four fragments of 8 × 8 elements; this unit names the chunk of one line.
#[cube]
fn four_matrices(ring: &Shared<[Chunk]>, at: usize, #[comptime] transposed: bool) -> Chunk {
    // The types don't matter: registers are words.
    let layout = MmaDefinition::<half::f16, half::f16, f32>::new(M, N, K);
    let words = layout.load_matrix::<Chunk, Const<1>>(
        &ring[at..at + 1],
        MatrixIdent::A,
        4usize,
        transposed,
    );
    let mut four = Chunk::new(0u32);
    #[unroll]
    for i in 0..4usize {
        four.insert(i, words[i].extract(0usize));
    }
    four
}

/// d = a · b + c on one fragment each.
#[cube]
fn multiply(a: Chunk, b: Vector<u32, Const<2>>, c: Four, #[comptime] of: Pipeline) -> Four {
    let kind = comptime!(of.element.to_string());
    // Reinterpreting makes values of the operands; variables would be passed as addresses.
    let a = Chunk::reinterpret(a);
    let b = Vector::<u32, Const<2>>::reinterpret(b);
    let c = Four::reinterpret(c);
    let out: Four;
    gpu_asm!(
        "mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {d}, {a}, {b}, {c};",
        a = in(_) a, b = in(_) b, c = in(_) c, d = out(_) out,
        options(pure, nomem),
    );
    out
}

/// Four fragments of an operand: 16 rows or columns of the result from `first` on, by 16 inner columns from `inner` on. Of rows the second
/// fragment is below the first, of columns it is the next inner columns'.
#[cube]
fn fragments(
    ring: &Shared<[Chunk]>,
    first: usize,
    inner: usize,
    slot: usize,
    #[comptime] operand: usize,
    #[comptime] of: Pipeline,
) -> Chunk {
    let lane = UNIT_POS_X as usize;
    let outer = comptime!(of.lines[operand] == Lines::Outer);
    let (line, chunk) = if outer {
        (first, inner / 8)
    } else {
        (inner, first / 8)
    };
    let at = if comptime!(outer == (operand == 0)) {
        place(line + lane % 16, chunk + lane / 16, operand, of)
    } else {
        let line = line + lane % 8 + lane / 16 * 8;
        place(line, chunk + lane / 8 % 2, operand, of)
    };
    let at = slot * comptime!(of.chunks(operand)) + at;
    four_matrices(ring, at, !outer)
}

/// Multiplies one stage into the sums of this plane.
#[cube]
fn multiply_stage(rings: &Rings, sums: &mut Array<Four>, slot: usize, #[comptime] of: Pipeline) {
    let (down, pairs) = comptime!((of.products()[0], of.products()[1] / 2));
    let plane = UNIT_POS_Y as usize;
    let first_row = plane / comptime!(of.planes[1]) * comptime!(of.each[0]);
    let first_column = plane % comptime!(of.planes[1]) * comptime!(of.each[1]);
    #[unroll]
    for step in 0..comptime!(of.step / K) {
        let inner = comptime!(step * K).runtime();
        let mut a = Array::<Chunk>::new(down);
        #[unroll]
        for i in 0..down {
            a[i] = fragments(&rings.left, first_row + i * M, inner, slot, 0usize, of);
        }
        #[unroll]
        for pair in 0..pairs {
            let first = first_column + pair * 16;
            let four = fragments(&rings.right, first, inner, slot, 1usize, of);
            #[unroll]
            for j in 0..2usize {
                let mut b = Vector::<u32, Const<2>>::new(0u32);
                b.insert(0usize, four.extract(2 * j));
                b.insert(1usize, four.extract(2 * j + 1));
                #[unroll]
                for i in 0..down {
                    let at = comptime!(i * pairs * 2 + pair * 2 + j);
                    sums[at] = multiply(a[i], b, sums[at], of);
                }
            }
        }
    }
}

/// The address of a chunk in workgroup memory, in chunks.
#[cube]
fn address(ring: &Shared<[Chunk]>, at: usize) -> u64 {
    // SAFETY: only the address is used, of a place inside of the ring.
    let chunk = unsafe { ring[at..at + 1].as_ptr_unchecked() };
    let out: u64;
    gpu_asm!(
        "cvta.to.shared.u64 {out}, {chunk};",
        out = out(_) out, chunk = in(_) chunk,
        options(pure, nomem),
    );
    out / 16u64
}

/// The fields of an operand's matrix descriptor without its address: lines of 128 bytes, swizzled; in chunks, 64 to the next eight lines,
/// and the distance to the next 64 rows or columns of the result where lines are inner columns. Source: PTX ISA, "Matrix descriptor".
fn descriptor(operand: usize, of: Pipeline) -> u64 {
    let next = match of.lines[operand] {
        Lines::Outer => 1,
        Lines::Inner => of.step * 8,
    };
    1 << 62 | 64 << 32 | (next as u64) << 16
}

/// The distance in chunks to an operand's next 16 inner columns.
fn next_inner(of: Pipeline, operand: usize) -> u64 {
    match of.lines[operand] {
        Lines::Outer => 2,
        Lines::Inner => 128,
    }
}

/// Copies of the sums before, the operands after the results, to the results. Inline assembly of CubeCL has no operands that are both;
/// ptxas keeps both in the same registers.
fn moves(of: Pipeline) -> String {
    let sums = of.each[1] / 2;
    let of = |i| format!("mov.b32 %{i}, %{}; ", sums + i);
    (0..sums).map(of).collect()
}

/// The instructions that begin to multiply one stage of 64 inner columns: operands are the sums before and four pairs of descriptors.
fn instructions(of: Pipeline) -> String {
    let (columns, sums, kind) = (of.each[1], of.each[1] / 2, of.element);
    let [left, right] = of.lines.map(|lines| u32::from(lines == Lines::Inner));
    let all: Vec<String> = (0..sums).map(|i| format!("%{i}")).collect();
    let all = all.join(", ");
    let mut text = format!("{{ .reg .pred p; setp.ne.b32 p, 1, 0; {}", moves(of));
    text += "wgmma.fence.sync.aligned; ";
    for k in 0..of.step / K {
        let (a, b) = (2 * sums + 2 * k, 2 * sums + 2 * k + 1);
        text += &format!(
            "wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kind}.{kind} {{{all}}}, %{a}, %{b}, p, 1, 1, {left}, {right}; "
        );
    }
    text + "wgmma.commit_group.sync.aligned; }"
}

/// Begins to multiply one stage into the sums of this group of planes.
#[cube]
fn begin_group<S: Size>(
    rings: &Rings,
    sums: Vector<f32, S>,
    slot: usize,
    #[comptime] of: Pipeline,
) -> Vector<f32, S> {
    // A group's 64 rows are 64 lines of eight chunks, or a block.
    let group = UNIT_POS_Y as usize / 4 * comptime!(64 * of.step / 8);
    let a = address(&rings.left, slot * comptime!(of.chunks(0)) + group);
    let b = address(&rings.right, slot * comptime!(of.chunks(1)));
    let (a, b) = (
        a + comptime!(descriptor(0, of)),
        b + comptime!(descriptor(1, of)),
    );
    let (down, across) = (comptime!(next_inner(of, 0)), comptime!(next_inner(of, 1)));
    let (a1, b1) = (a + down, b + across);
    let (a2, b2) = (a1 + down, b1 + across);
    let (a3, b3) = (a2 + down, b2 + across);
    let text = comptime!(instructions(of));
    let c = Vector::<f32, S>::reinterpret(sums);
    let out: Vector<f32, S>;
    gpu_asm!(
        "/* {d} {c} {a} {b} {a1} {b1} {a2} {b2} {a3} {b3} */ {text}",
        c = in(_) c, a = in(_) a, b = in(_) b, a1 = in(_) a1, b1 = in(_) b1,
        a2 = in(_) a2, b2 = in(_) b2, a3 = in(_) a3, b3 = in(_) b3, d = out(_) out,
    );
    out
}

/// Waits for the products that [`begin_group`] began. The wait comes before any register is read: else ptxas makes every instruction wait for
/// the one before.
#[cube]
fn end_group<S: Size>(sums: Vector<f32, S>, #[comptime] of: Pipeline) -> Vector<f32, S> {
    let text = comptime!(moves(of));
    let c = Vector::<f32, S>::reinterpret(sums);
    let out: Vector<f32, S>;
    gpu_asm!(
        "/* {d} {c} */ {{ wgmma.wait_group.sync.aligned 0; {text} }}",
        c = in(_) c, d = out(_) out,
    );
    out
}
