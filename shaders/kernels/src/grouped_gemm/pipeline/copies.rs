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

/// Starts the copy of chunk `from`, or of zeros if it is not `inside`, to a place of a stage. The chunk's line must lie in the operand's
/// tile, or this unit has nothing to copy in its last round.
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
    if mine(line, operand, of) {
        let to = slot * comptime!(of.chunks(operand)) + place(line, chunk, operand, of);
        let from = select(inside, from, 0usize);
        let held = select(inside, 1usize, 0usize);
        copy_async_checked(&buffer[from..from + held], &mut ring[to..to + 1], 4u32);
    }
}

/// Whether a line lies in the operand's tile.
#[cube]
pub(in crate::grouped_gemm) fn mine(
    line: usize,
    #[comptime] operand: usize,
    #[comptime] of: Pipeline,
) -> bool {
    let lines = comptime!(of.chunks(operand) / of.across(operand));
    if comptime!(of.even(operand)) {
        true.runtime()
    } else {
        line < lines
    }
}

/// Ends a group of copies, which are waited for together.
#[cube]
pub(in crate::grouped_gemm) fn end_copies() {
    gpu_asm!("cp.async.commit_group;");
}

/// Waits for the copies of all but the newest `ahead` groups, and makes them visible to the instructions of `of`. The other units' copies
/// are visible after a barrier.
#[cube]
pub(in crate::grouped_gemm) fn wait_for_copies(#[comptime] ahead: usize, #[comptime] of: Pipeline) {
    gpu_asm!("cp.async.wait_group {n};", n = const ahead);
    if comptime!(of.by == Instruction::Group) {
        gpu_asm!("fence.proxy.async.shared::cta;");
    }
}

/// Chunks of rows of `columns` elements.
#[cube]
pub(in crate::grouped_gemm) fn chunks(columns: usize) -> usize {
    columns / CHUNK
}
