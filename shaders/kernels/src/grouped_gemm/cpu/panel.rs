//! Packing of weights into a panel of registers, and the end of a tile: bias, activation, gate, and the store.

use super::{Panel, Spec};
use crate::grouped_gemm::activation::{activate, gated};
use crate::grouped_gemm::sparse24::{Stack, four_of_row, one_of_row, stack_of};
use crate::grouped_gemm::{Sizes, Stored, WeightLayout, blocks};
use cubecl::prelude::*;

/// The weight row of lane `lane` of register `register` of the panel that starts at column `first`.
#[cube]
pub(in crate::grouped_gemm) fn panel_row(
    sizes: &Sizes,
    first: usize,
    #[comptime] register: usize,
    #[comptime] lane: usize,
    #[comptime] width: usize,
    #[comptime] spec: Spec,
) -> usize {
    let (part, within) = comptime!(spec.part_of(register));
    min(first + within * width + lane, sizes.n - 1) + part * sizes.n
}

/// packed\[kk\]\[half\] = the panel's weights at inner column `begin` + kk, up to before `past`.
#[cube]
pub(super) fn pack_panel<F: Float, N: Size, L: Size>(
    w: &ComptimeOption<&[Vector<F, L>]>,
    words: &ComptimeOption<&[u32]>,
    packed: &mut [Vector<f32, N>],
    sizes: &Sizes,
    panel: &Panel,
    begin: usize,
    past: usize,
    #[comptime] spec: Spec,
) {
    let width = N::value();
    let depth = comptime!(spec.depth(width));
    // One register after the other, because the rows of all registers would be more streams than the CPU prefetches.
    let registers = comptime!(spec.registers);
    #[unroll]
    for half in 0..registers {
        for kk in range_stepped(begin, past, depth) {
            let block = load_block::<F, N, L>(w, words, sizes, panel, kk, half, spec);
            #[unroll]
            for inner in 0..depth {
                packed[panel.base + registers * (kk - begin + inner) + half] = block[inner];
            }
        }
    }
}

/// The inner columns from `kk`, [`Spec::depth`] of them, of the weight rows of register `half`.
#[cube]
fn load_block<F: Float, N: Size, L: Size>(
    w: &ComptimeOption<&[Vector<F, L>]>,
    words: &ComptimeOption<&[u32]>,
    sizes: &Sizes,
    panel: &Panel,
    kk: usize,
    #[comptime] half: usize,
    #[comptime] spec: Spec,
) -> Array<Vector<f32, N>> {
    let (expert_row, first) = (panel.row_in_slab, panel.first);
    let width = N::value();
    let depth = comptime!(spec.depth(width));
    let mut block = Array::<Vector<f32, N>>::new(depth);
    if comptime!(spec.stored != Stored::Values) {
        load_decoded::<F, N, L>(w, words.unwrap(), &mut block, sizes, panel, kk, half, spec);
    } else if comptime!(spec.layout == WeightLayout::InOut) {
        let w = w.unwrap();
        let row = expert_row * sizes.k + kk * sizes.n;
        let (_, within) = comptime!(spec.part_of(half));
        let column = first + within * width;
        block[0] = load_register::<F, N, L>(w, row, column, sizes.n, spec.aligned);
    } else if comptime!(spec.whole) {
        let w = w.unwrap();
        #[unroll]
        for lane in 0..width {
            let row = expert_row + panel_row(sizes, first, half, lane, width, spec);
            block[lane] = Vector::cast_from(w[(row * sizes.k + kk) / width]);
        }
        transpose::<N>(&mut block);
    } else {
        let w = w.unwrap();
        let mut column = Vector::<f32, N>::empty();
        #[unroll]
        for lane in 0..width {
            let row = expert_row + panel_row(sizes, first, half, lane, width, spec);
            column.insert(lane, f32::cast_from(w[row * sizes.k + kk].extract(0usize)));
        }
        block[0] = column;
    }
    block
}

/// Fills a block with 2:4 weights or weights in blocks: four of each row, or a register of a row of \[k, columns\].
#[cube]
fn load_decoded<F: Float, N: Size, L: Size>(
    kept: &ComptimeOption<&[Vector<F, L>]>,
    words: &[u32],
    block: &mut Array<Vector<f32, N>>,
    sizes: &Sizes,
    panel: &Panel,
    kk: usize,
    #[comptime] half: usize,
    #[comptime] spec: Spec,
) {
    let width = N::value();
    let parts = comptime!(if spec.gated { 2usize } else { 1usize });
    let stack = stack_of(sizes, parts, spec.layout);
    match comptime!(spec.layout) {
        WeightLayout::OutIn => {
            let mut groups = Array::<Vector<f32, Const<4>>>::new(width);
            #[unroll]
            for lane in 0..width {
                let row = panel_row(sizes, panel.first, half, lane, width, spec);
                let row = panel.row_in_slab + row;
                groups[lane] = match comptime!(spec.stored) {
                    Stored::Blocks(format) => blocks::four_of_row(words, row, kk, sizes.k, format),
                    _ => four_of_row::<F, L>(kept.unwrap(), words, &stack, row, kk),
                };
            }
            #[unroll]
            for inner in 0..comptime!(spec.depth(width)) {
                let mut column = Vector::<f32, N>::empty();
                #[unroll]
                for lane in 0..width {
                    column.insert(lane, groups[lane].extract(inner));
                }
                block[inner] = column;
            }
        }
        WeightLayout::InOut => {
            let row = panel.row_in_slab / sizes.n * sizes.k + kk;
            let (_, within) = comptime!(spec.part_of(half));
            let first = panel.first + within * width;
            block[0] = decoded_register::<F, N, L>(kept, words, &stack, sizes, row, first, spec);
        }
    }
}

/// A register of row `row` of \[k, columns\], of 2:4 weights or weights in blocks, from column `first` on; past the end it has other values.
#[cube]
fn decoded_register<F: Float, N: Size, L: Size>(
    kept: &ComptimeOption<&[Vector<F, L>]>,
    words: &[u32],
    stack: &Stack,
    sizes: &Sizes,
    row: usize,
    first: usize,
    #[comptime] spec: Spec,
) -> Vector<f32, N> {
    let width = N::value();
    let mut register = Vector::<f32, N>::empty();
    match comptime!(spec.stored) {
        Stored::Blocks(format) => {
            let n = sizes.n;
            #[unroll]
            for group in 0..comptime!(width / 4) {
                let column = first + comptime!(4 * group);
                let four = blocks::four_of_row(words, row, column, n, format);
                #[unroll]
                for lane in 0..4usize {
                    register.insert(comptime!(4 * group + lane), four.extract(lane));
                }
            }
        }
        _ => {
            let (kept, last) = (kept.unwrap(), sizes.n - 1);
            #[unroll]
            for lane in 0..width {
                let column = min(first + lane, last);
                let one = one_of_row::<F, L>(kept, words, stack, row, column);
                register.insert(lane, one);
            }
        }
    }
    register
}

/// Transposes a square of registers by exchanging halves, then halves of halves.
#[cube]
pub(in crate::grouped_gemm) fn transpose<N: Size>(square: &mut Array<Vector<f32, N>>) {
    let width = N::value();
    #[unroll]
    for stage in 0..comptime!(width.ilog2() as usize) {
        let apart = comptime!(width >> (stage + 1));
        #[unroll]
        for pair in 0..comptime!(width / 2) {
            let at = comptime!(pair / apart * 2 * apart + pair % apart);
            let (left, right) = (square[at], square[at + apart]);
            let mut upper = Vector::<f32, N>::empty();
            let mut lower = Vector::<f32, N>::empty();
            #[unroll]
            for lane in 0..width {
                if comptime!(lane & apart == 0) {
                    upper.insert(lane, left.extract(lane));
                    upper.insert(lane + apart, right.extract(lane));
                    lower.insert(lane, left.extract(lane + apart));
                    lower.insert(lane + apart, right.extract(lane + apart));
                }
            }
            square[at] = upper;
            square[at + apart] = lower;
        }
    }
}

/// A register of the row of `n` elements that starts at `row`, from `column` on; columns past the last repeat the last, or the
/// last whole register if rows consist of whole ones.
#[cube]
pub(in crate::grouped_gemm) fn load_register<F: Float, N: Size, L: Size>(
    from: &[Vector<F, L>],
    row: usize,
    column: usize,
    n: usize,
    #[comptime] aligned: bool,
) -> Vector<f32, N> {
    let width = N::value();
    let mut value = Vector::<f32, N>::empty();
    if comptime!(aligned) {
        value = Vector::cast_from(from[(row + min(column, n - width)) / width]);
    } else {
        #[unroll]
        for lane in 0..width {
            let at = row + min(column + lane, n - 1);
            value.insert(lane, f32::cast_from(from[at].extract(0usize)));
        }
    }
    value
}

/// Stores the part of a register that lies inside its row.
#[cube]
pub(in crate::grouped_gemm) fn store_register<F: Float, N: Size, O: Size>(
    out: &mut [Vector<F, O>],
    value: Vector<f32, N>,
    row: usize,
    column: usize,
    n: usize,
    #[comptime] aligned: bool,
) {
    if comptime!(aligned) {
        if column < n {
            out[(row * n + column) / N::value()] = Vector::cast_from(value);
        }
    } else {
        #[unroll]
        for lane in 0..N::value() {
            if column + lane < n {
                out[row * n + column + lane] = Vector::new(F::cast_from(value.extract(lane)));
            }
        }
    }
}

/// The bias of a register of columns; 0 without a bias.
#[cube]
fn bias_of<F: Float, N: Size>(
    bias: &ComptimeOption<&[F]>,
    sizes: &Sizes,
    expert_row: usize,
    first: usize,
    #[comptime] half: usize,
    #[comptime] spec: Spec,
) -> Vector<f32, N> {
    let width = N::value();
    let mut value = Vector::<f32, N>::new(0.0f32);
    #[comptime]
    if let ComptimeOption::Some(bias) = bias {
        #[unroll]
        for lane in 0..width {
            let row = panel_row(sizes, first, half, lane, width, spec);
            value.insert(lane, f32::cast_from(bias[expert_row + row]));
        }
    }
    value
}

/// Applies bias, activation and gate to one row of a panel, and stores it.
#[cube]
fn store_row<F: Float, N: Size, O: Size>(
    out: &mut [Vector<F, O>],
    left: Vector<f32, N>,
    right: Vector<f32, N>,
    row: usize,
    first: usize,
    n: usize,
    #[comptime] spec: Spec,
) {
    let left = activate::<N>(left, spec.activation);
    if comptime!(spec.gated) {
        let up = gated::<N>(right, spec.activation);
        store_register::<F, N, O>(out, left * up, row, first, n, spec.aligned);
    } else {
        let right = activate::<N>(right, spec.activation);
        store_register::<F, N, O>(out, left, row, first, n, spec.aligned);
        store_register::<F, N, O>(out, right, row, first + N::value(), n, spec.aligned);
    }
}

/// The biases of a panel's registers.
#[cube]
pub(in crate::grouped_gemm) fn biases_of<F: Float, N: Size>(
    bias: &ComptimeOption<&[F]>,
    sizes: &Sizes,
    expert_row: usize,
    first: usize,
    #[comptime] spec: Spec,
) -> Array<Vector<f32, N>> {
    let registers = comptime!(spec.registers);
    let mut biases = Array::<Vector<f32, N>>::new(registers);
    #[unroll]
    for r in 0..registers {
        biases[r] = bias_of::<F, N>(bias, sizes, expert_row, first, r, spec);
    }
    biases
}

/// Applies bias, activation and gate to `count` rows from `row`, and stores those before `end`.
#[cube]
pub(in crate::grouped_gemm) fn store_rows<F: Float, N: Size, O: Size>(
    out: &mut [Vector<F, O>],
    sums: &Array<Vector<f32, N>>,
    biases: &Array<Vector<f32, N>>,
    sizes: &Sizes,
    row: usize,
    end: usize,
    first: usize,
    #[comptime] spec: Spec,
    #[comptime] count: usize,
) {
    let registers = comptime!(spec.registers);
    #[unroll]
    for i in 0..count {
        if row + i < end {
            #[unroll]
            for pair in 0..comptime!(registers / 2) {
                let (lower, upper, within) = comptime!(spec.pair(pair));
                let left = sums[registers * i + lower] + biases[lower];
                let right = sums[registers * i + upper] + biases[upper];
                let (to, column) = (row + i, first + within * N::value());
                store_row::<F, N, O>(out, left, right, to, column, sizes.n, spec);
            }
        }
    }
}
