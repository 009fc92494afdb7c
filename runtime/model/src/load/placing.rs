//! Copies rows of a file's matrices to rows of places, as values or as FP8 codes without decoding, and uploads the codes to a device.

use std::ops::Range;

use burn::tensor::Device;
use moebius::fp8::{Fp8Layout, Fp8Tensor, Quantizer};
use moebius_ops::blocks::e2m1_values;
use moebius_ops::quantize::{Quantized, quantize_host};
use moebius_ops::scaling::{Fp8Scheme, HostScales, ScaleType};
use moebius_weights::Fp8Weight;

use super::mapping::{MXFP4_BLOCK, Piece};
use crate::error::Error;
use crate::families::{Form, Part};

/// The row that row `row` of a piece gets in a place with `rows` rows.
pub(super) fn row_of(piece: &Piece, rows: usize, row: usize) -> usize {
    let half = rows / 2;
    if piece.form == Form::Neighbours {
        let within = row % piece.head;
        return row - within + within % 2 * (piece.head / 2) + within / 2;
    }
    let (keys, values) = (piece.keys, piece.head - piece.keys);
    match (piece.part, piece.form.is_paired()) {
        (Part::Keys, _) => row / keys * piece.head + row % keys,
        (Part::Values, _) => row / values * piece.head + keys + row % values,
        (Part::Up, _) => half + row,
        (Part::Whole, true) => row % 2 * half + row / 2,
        _ => row,
    }
}

/// The rows of a place with `rows` rows that a piece has in their order, or at most in another order in each head; `None` for a piece whose rows go
/// to others.
pub(super) fn run_of(piece: &Piece, rows: usize) -> Option<Range<usize>> {
    if is_transposed(piece) || piece.form.is_paired() {
        return None;
    }
    match piece.part {
        Part::Whole => Some(0..rows),
        Part::Gate => Some(0..rows / 2),
        Part::Up => Some(rows / 2..rows / 2 * 2),
        Part::Keys | Part::Values => None,
    }
}

/// Number of rows of a piece in a place with `rows` rows.
pub(super) fn rows_in(piece: &Piece, rows: usize) -> usize {
    match piece.part {
        Part::Whole => rows,
        Part::Gate | Part::Up => rows / 2,
        Part::Keys => rows / piece.head * piece.keys,
        Part::Values => rows / piece.head * (piece.head - piece.keys),
    }
}

/// Whether rows and columns of a piece, or of each of its heads, are exchanged.
pub(super) fn is_transposed(piece: &Piece) -> bool {
    transposed(piece, 0).is_some()
}

/// Number of rows, of the `taken` rows of a piece, that the file transposes together; `None` where it transposes none.
fn transposed(piece: &Piece, taken: usize) -> Option<usize> {
    match piece.form {
        Form::TransposedHeads => Some(piece.keys),
        form => form.is_transposed().then_some(taken),
    }
}

/// The matrices of a piece that are among the matrices `of` of its place: the number of each in the piece, and its place among these. A tensor of
/// one expert has one matrix.
pub(super) fn matrices_of(
    piece: &Piece,
    of: &Range<usize>,
) -> impl Iterator<Item = [usize; 2]> + use<> {
    let (own, first) = (piece.expert.is_some(), of.start);
    let experts = match piece.expert {
        Some(expert) if of.contains(&expert) => expert..expert + 1,
        Some(_) => 0..0,
        None => of.clone(),
    };
    experts.map(move |expert| [if own { 0 } else { expert }, expert - first])
}

/// Copies one matrix of a file to `out` \[rows, columns\], the matrix of its place.
pub(super) fn place<T: Copy>(
    piece: &Piece,
    values: &[T],
    out: &mut [T],
    [rows, columns]: [usize; 2],
) {
    let taken = rows_in(piece, rows);
    for row in 0..taken {
        let to = &mut out[row_of(piece, rows, row) * columns..][..columns];
        if let Some(together) = transposed(piece, taken) {
            let (first, within) = (row / together * together, row % together);
            for (column, to) in to.iter_mut().enumerate() {
                *to = values[first * columns + column * together + within];
            }
        } else {
            to.copy_from_slice(&values[row * columns..][..columns])
        }
    }
}

/// Whether a piece has all values of its place's matrix in their order.
pub(crate) fn is_whole(piece: &Piece) -> bool {
    piece.part == Part::Whole && piece.form == Form::Plain
}

/// The inverse of [`place`]: takes one matrix in the file's order from `values` \[rows, columns\] of a place.
pub(crate) fn taken(piece: &Piece, values: &[f32], [rows, columns]: [usize; 2]) -> Vec<f32> {
    let count = rows_in(piece, rows);
    let mut out = vec![0.0; count * columns];
    for row in 0..count {
        let from = &values[row_of(piece, rows, row) * columns..][..columns];
        if let Some(together) = transposed(piece, count) {
            let (first, within) = (row / together * together, row % together);
            for (column, &value) in from.iter().enumerate() {
                out[first * columns + column * together + within] = value;
            }
        } else {
            out[row * columns..][..columns].copy_from_slice(from)
        }
    }
    if piece.form == Form::LessOne {
        out.iter_mut().for_each(|value| *value -= 1.0);
    }
    out
}

/// Decodes MXFP4: 4-bit codes, the first one of a byte in its low half, times 2^(scale − 127).
pub(super) fn decode_mxfp4(codes: &[u8], scales: &[u8], columns: usize) -> Vec<f32> {
    let across = columns.div_ceil(MXFP4_BLOCK);
    let mut values = Vec::with_capacity(scales.len() / across.max(1) * columns);
    let blocks = codes.chunks_exact(MXFP4_BLOCK / 2).zip(scales);
    for (number, (codes, &scale)) in blocks.enumerate() {
        let scale = f64::from(scale) - 127.0;
        let scale = scale.exp2() as f32;
        let left = columns - number % across * MXFP4_BLOCK;
        values.extend(e2m1_values(codes, scale).take(left));
    }
    values
}

/// The FP8 scheme that all pieces of matrices \[rows, columns\] share; `None` where they differ, or where a scale would cover rows of two
/// pieces.
pub(super) fn common_scheme(pieces: &[Piece], [rows, columns]: [usize; 2]) -> Option<Fp8Scheme> {
    let scheme = pieces.first()?.fp8.as_ref()?.scheme;
    let [block, _] = scheme.granularity.block(rows, columns);
    let fits = |piece: &Piece| {
        let same = piece.fp8.as_ref().is_some_and(|fp8| fp8.scheme == scheme);
        // The next part then begins with a new block of scales.
        let whole = piece.part == Part::Whole || rows_in(piece, rows).is_multiple_of(block);
        same && piece.form == Form::Plain && whole
    };
    pieces.iter().all(fits).then_some(scheme)
}

/// Stacked matrices with codes and scales of zero.
pub(super) fn stacked(scheme: Fp8Scheme, [stack, rows, columns]: [usize; 3]) -> Fp8Weight {
    let [down, across] = scheme.grid(rows, columns);
    let scales = stack * down * across;
    Fp8Weight {
        name: String::new(),
        scheme,
        shape: vec![stack, rows, columns],
        codes: vec![0; stack * rows * columns],
        scales: match scheme.granularity.scale_type() {
            ScaleType::F32 => HostScales::F32(vec![0.0; scales]),
            ScaleType::E8M0 => HostScales::E8M0(vec![0; scales]),
        },
        input_scale: None,
    }
}

/// Copies the codes and scales of the matrices of one tensor to their places in stacked matrices of the same scheme, from matrix `first` on.
pub(super) fn add(
    stacked: &mut Fp8Weight,
    piece: &Piece,
    first: usize,
    weight: &Fp8Weight,
) -> Result<(), Error> {
    weight.check()?;
    let [_, rows, columns] = stacked.extents();
    let grid = stacked.scheme.grid(rows, columns);
    let codes = &mut stacked.codes[first * rows * columns..];
    spread(piece, &weight.codes, codes, [rows, columns]);
    let scales = first * grid[0] * grid[1];
    match (&weight.scales, &mut stacked.scales) {
        (HostScales::F32(from), HostScales::F32(to)) => {
            spread(piece, from, &mut to[scales..], grid);
        }
        (HostScales::E8M0(from), HostScales::E8M0(to)) => {
            spread(piece, from, &mut to[scales..], grid);
        }
        _ => unreachable!("the scheme says which, and the check has seen it"),
    }
    Ok(())
}

/// Quantises stacked matrices \[stack, rows, columns\] on the host.
pub(super) fn rounded(
    values: &[f32],
    shape: [usize; 3],
    quantizer: Quantizer,
) -> Result<Fp8Weight, Error> {
    let [stack, rows, columns] = shape;
    if stack == 1 {
        let matrix = quantize_host(values, rows, columns, quantizer);
        let Quantized { codes, scales } = matrix.map_err(moebius::Error::from)?;
        return Ok(Fp8Weight {
            shape: shape.to_vec(),
            codes,
            scales,
            ..stacked(quantizer.into(), [0, rows, columns])
        });
    }
    let mut stacked = stacked(quantizer.into(), shape);
    let size = rows * columns;
    let [down, across] = stacked.scheme.grid(rows, columns);
    for (number, values) in values.chunks_exact(size.max(1)).enumerate() {
        let matrix =
            quantize_host(values, rows, columns, quantizer).map_err(moebius::Error::from)?;
        stacked.codes[number * size..][..size].copy_from_slice(&matrix.codes);
        let at = number * down * across;
        match (&matrix.scales, &mut stacked.scales) {
            (HostScales::F32(from), HostScales::F32(to)) => {
                to[at..][..from.len()].copy_from_slice(from);
            }
            (HostScales::E8M0(from), HostScales::E8M0(to)) => {
                to[at..][..from.len()].copy_from_slice(from);
            }
            _ => unreachable!("both are of the scheme"),
        }
    }
    Ok(stacked)
}

/// Copies the matrices of a piece to as many of a stack.
fn spread<T: Copy>(piece: &Piece, from: &[T], to: &mut [T], [rows, columns]: [usize; 2]) {
    let matrices = from.chunks_exact((rows_in(piece, rows) * columns).max(1));
    let to = to.chunks_exact_mut((rows * columns).max(1));
    for (from, to) in matrices.zip(to) {
        place(piece, from, to, [rows, columns]);
    }
}

/// Uploads the weight, a matrix or a stack of matrices, to a device; [`Weight`](moebius::fp8::Weight)s are made of the result.
///
/// # Errors
/// The errors of [`Fp8Weight::check`], and [`Error::Moebius`] when the device can't hold the weight.
pub fn upload(weight: &Fp8Weight, device: &Device) -> Result<Fp8Tensor, Error> {
    weight.check()?;
    let layout = Fp8Layout {
        shape: weight.extents(),
        scheme: weight.scheme,
    };
    let tensor = Fp8Tensor::from_codes(&weight.codes, &weight.scales, layout, device)?;
    Ok(tensor)
}

#[cfg(test)]
#[path = "placing_tests.rs"]
mod tests;
