//! FP8 codes of a place, put together from those of its tensors without a float between.

use moebius::fp8::Quantizer;
use moebius_ops::quantize::quantize_host;
use moebius_ops::scaling::{Fp8Scheme, HostScales, ScaleType};
use moebius_weights::Fp8Weight;

use super::mapping::Piece;
use super::placing::{place, rows_in};
use crate::error::Error;
use crate::families::{Form, Part};

/// The scheme of all pieces of matrices \[rows, columns\], where they have one and no scale of a piece reaches into another's rows.
pub(super) fn common_scheme(pieces: &[Piece], [rows, columns]: [usize; 2]) -> Option<Fp8Scheme> {
    let scheme = pieces.first()?.fp8.as_ref()?.scheme;
    let [block, _] = scheme.granularity.block(rows, columns);
    let fits = |piece: &Piece| {
        let same = piece.fp8.as_ref().is_some_and(|fp8| fp8.scheme == scheme);
        // What comes behind a part begins with a block of its own.
        let whole = piece.part == Part::Whole || rows_in(piece, rows).is_multiple_of(block);
        same && piece.form == Form::Plain && whole
    };
    pieces.iter().all(fits).then_some(scheme)
}

/// Stacked matrices of zeros, in codes and scales.
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

/// Puts the codes and scales of one tensor where they belong in stacked matrices of the same scheme.
pub(super) fn add(stacked: &mut Fp8Weight, piece: &Piece, weight: &Fp8Weight) -> Result<(), Error> {
    weight.check()?;
    let [_, rows, columns] = stacked.extents();
    let grid = stacked.scheme.grid(rows, columns);
    spread(piece, &weight.codes, &mut stacked.codes, [rows, columns]);
    match (&weight.scales, &mut stacked.scales) {
        (HostScales::F32(from), HostScales::F32(to)) => spread(piece, from, to, grid),
        (HostScales::E8M0(from), HostScales::E8M0(to)) => spread(piece, from, to, grid),
        _ => unreachable!("the scheme says which, and the check has seen it"),
    }
    Ok(())
}

/// Values of stacked matrices \[stack, rows, columns\] as codes, rounded on the host.
pub(super) fn rounded(
    values: &[f32],
    shape: [usize; 3],
    quantizer: Quantizer,
) -> Result<Fp8Weight, Error> {
    let [_, rows, columns] = shape;
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

/// The matrices of a piece, from its expert's on.
fn spread<T: Copy>(piece: &Piece, from: &[T], to: &mut [T], [rows, columns]: [usize; 2]) {
    let first = piece.expert.unwrap_or(0);
    let matrices = from.chunks_exact((rows_in(piece, rows) * columns).max(1));
    let to = to.chunks_exact_mut((rows * columns).max(1)).skip(first);
    for (from, to) in matrices.zip(to) {
        place(piece, from, to, [rows, columns]);
    }
}
