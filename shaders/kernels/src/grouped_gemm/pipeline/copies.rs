//! Asynchronous copies of chunks from buffers to the stages of a ring.

use super::{CHUNK, Chunk, Instruction, Lines, Pipeline, SWIZZLE};
use cubecl::prelude::barrier::copy_async_checked;
use cubecl::prelude::*;

/// The line and the chunk in it that this unit copies in a round.
#[cube]
pub(in crate::grouped_gemm) fn copied(
    #[comptime] round: usize,
    #[comptime] operand: usize,
    #[comptime] of: Pipeline,
) -> (usize, usize) {
    let at = UNIT_POS as usize + comptime!(round * of.units());
    let across = comptime!(of.across(operand));
    (at / across, at % across)
}

/// The place of a chunk in a stage of an operand. Lines of inner columns lie in blocks of 64 rows or columns of the result, one block
/// after the other.
#[cube]
pub(in crate::grouped_gemm) fn place(
    line: usize,
    chunk: usize,
    #[comptime] operand: usize,
    #[comptime] of: Pipeline,
) -> usize {
    match comptime!(of.lines[operand]) {
        Lines::Outer => {
            let across = comptime!(of.across(operand));
            // As many lines as fill 128 bytes share an order of chunks.
            let turn = line / comptime!(SWIZZLE / across) % across;
            line * across + (chunk ^ turn)
        }
        Lines::Inner => {
            let block = chunk / SWIZZLE * comptime!(of.step * SWIZZLE);
            block + line * SWIZZLE + ((chunk % SWIZZLE) ^ (line % SWIZZLE))
        }
    }
}

/// Starts the copy of chunk `from`, or of zeros if it is not `inside`, to a place of a stage.
#[cube]
pub(in crate::grouped_gemm) fn copy(
    buffer: &[Chunk],
    from: usize,
    inside: bool,
    ring: &mut Shared<[Chunk]>,
    slot: usize,
    line: usize,
    chunk: usize,
    #[comptime] operand: usize,
    #[comptime] of: Pipeline,
) {
    let to = slot * comptime!(of.chunks(operand)) + place(line, chunk, operand, of);
    let from = select(inside, from, 0usize);
    let held = select(inside, 1usize, 0usize);
    copy_async_checked(&buffer[from..from + held], &mut ring[to..to + 1], 4u32);
}

/// Ends a group of copies, which are waited for together.
#[cube]
pub(in crate::grouped_gemm) fn end_copies() {
    gpu_asm!("cp.async.commit_group;");
}

/// Waits until the oldest stage in flight has arrived in all units, for the instructions of `of`. All of them have then read the stage
/// before it, too, which the next copies may fill.
#[cube]
pub(in crate::grouped_gemm) fn wait_for_stage(#[comptime] of: Pipeline) {
    gpu_asm!("cp.async.wait_group {n};", n = const of.stages - 2);
    if comptime!(of.by == Instruction::Group) {
        gpu_asm!("fence.proxy.async.shared::cta;");
    }
    sync_cube();
}

/// The stage after `slot` in the ring.
#[cube]
pub(in crate::grouped_gemm) fn after(slot: usize, #[comptime] of: Pipeline) -> usize {
    select(slot == comptime!(of.stages - 1), 0, slot + 1)
}

/// Chunks of rows of `columns` elements.
#[cube]
pub(in crate::grouped_gemm) fn chunks(columns: usize) -> usize {
    columns / CHUNK
}
