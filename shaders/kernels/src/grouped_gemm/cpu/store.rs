//! What is done with the sums of a tile: bias, activation, gate, and the store.

use super::{Spec, panel_row};
use crate::grouped_gemm::Sizes;
use crate::grouped_gemm::activation::{activate, gated};
use cubecl::prelude::*;

/// Stores one register of a row, or the part of it inside the matrix.
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

/// The bias of a register of columns, 0 without one.
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

/// Bias, activation, gate, and the store of one row of a panel.
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

/// Bias, activation, gate and the store of `count` rows from `row`, as far as they are before `end`.
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
