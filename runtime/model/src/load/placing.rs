//! Rows of a file's matrices to rows of a place's.

use super::mapping::{MXFP4_BLOCK, Piece};
use crate::families::{Form, Part};

/// The values of the codes of four bits, E2M1 (OCP MX, 2023).
const E2M1: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// The row of a place with `rows` rows that row `row` of a piece becomes.
fn row_of(piece: &Piece, rows: usize, row: usize) -> usize {
    let half = rows / 2;
    if piece.form == Form::Neighbours {
        let within = row % piece.head;
        return row - within + within % 2 * (piece.head / 2) + within / 2;
    }
    match (piece.part, piece.form.is_paired()) {
        (Part::Up, _) => half + row,
        (Part::Whole, true) => row % 2 * half + row / 2,
        _ => row,
    }
}

/// Rows of a piece of a place with `rows` rows.
pub(super) fn rows_in(piece: &Piece, rows: usize) -> usize {
    match piece.part {
        Part::Whole => rows,
        Part::Gate | Part::Up => rows / 2,
    }
}

/// Copies the values of one matrix as a file has them into `out` \[rows, columns\].
pub(super) fn place<T: Copy>(
    piece: &Piece,
    values: &[T],
    out: &mut [T],
    [rows, columns]: [usize; 2],
) {
    let taken = rows_in(piece, rows);
    for row in 0..taken {
        let to = &mut out[row_of(piece, rows, row) * columns..][..columns];
        if piece.form.is_transposed() {
            for (column, to) in to.iter_mut().enumerate() {
                *to = values[column * taken + row];
            }
        } else {
            to.copy_from_slice(&values[row * columns..][..columns])
        }
    }
}

/// The inverse of [`place`]: one matrix as a file has it, of `values` \[rows, columns\] of a place.
pub(crate) fn taken(piece: &Piece, values: &[f32], [rows, columns]: [usize; 2]) -> Vec<f32> {
    let count = rows_in(piece, rows);
    let mut out = vec![0.0; count * columns];
    for row in 0..count {
        let from = &values[row_of(piece, rows, row) * columns..][..columns];
        if piece.form.is_transposed() {
            for (column, &value) in from.iter().enumerate() {
                out[column * count + row] = value;
            }
        } else {
            out[row * columns..][..columns].copy_from_slice(from)
        }
    }
    out
}

/// Codes of four bits, the first of a byte in its low half, times 2^(scale − 127).
pub(super) fn decode_mxfp4(codes: &[u8], scales: &[u8], columns: usize) -> Vec<f32> {
    let across = columns.div_ceil(MXFP4_BLOCK);
    let mut values = Vec::with_capacity(scales.len() / across.max(1) * columns);
    let blocks = codes.chunks_exact(MXFP4_BLOCK / 2).zip(scales);
    for (number, (codes, &scale)) in blocks.enumerate() {
        let scale = f64::from(scale) - 127.0;
        let scale = scale.exp2() as f32;
        let left = columns - number % across * MXFP4_BLOCK;
        let halves = codes.iter().flat_map(|byte| [byte & 15, byte >> 4]);
        values.extend(halves.take(left).map(|code| {
            let value = E2M1[usize::from(code & 7)] * scale;
            if code & 8 == 0 { value } else { -value }
        }));
    }
    values
}

#[cfg(test)]
#[path = "placing_tests.rs"]
mod tests;
