//! FP8 codes of a place, put together from those of its tensors without a float between.

use burn::tensor::Device;
use moebius::fp8::{Fp8Layout, Fp8Tensor, HostScales, Quantizer, ScaleType};

use super::mapping::Piece;
use super::placing::{place, rows_in};
use crate::error::Error;
use crate::families::{Form, Part};
use crate::weights::{Fp8Scheme, Fp8Weight, quantize_host};

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

/// Codes and scales of stacked matrices.
pub(super) struct StackedCodes {
    scheme: Fp8Scheme,
    shape: [usize; 3],
    codes: Vec<u8>,
    scales: HostScales,
}

impl StackedCodes {
    pub(super) fn new(scheme: Fp8Scheme, shape: [usize; 3]) -> Self {
        let [stack, rows, columns] = shape;
        let [down, across] = scheme.grid(rows, columns);
        let scales = stack * down * across;
        Self {
            scheme,
            shape,
            codes: vec![0; stack * rows * columns],
            scales: match scheme.granularity.scale_type() {
                ScaleType::F32 => HostScales::F32(vec![0.0; scales]),
                ScaleType::E8M0 => HostScales::E8M0(vec![0; scales]),
            },
        }
    }

    /// Puts those of one tensor where they belong.
    pub(super) fn add(&mut self, piece: &Piece, weight: &Fp8Weight) -> Result<(), Error> {
        weight.check()?;
        let [_, rows, columns] = self.shape;
        let grid = self.scheme.grid(rows, columns);
        spread(piece, &weight.codes, &mut self.codes, [rows, columns]);
        match (&weight.scales, &mut self.scales) {
            (HostScales::F32(from), HostScales::F32(to)) => spread(piece, from, to, grid),
            (HostScales::E8M0(from), HostScales::E8M0(to)) => spread(piece, from, to, grid),
            _ => unreachable!("the scheme says which, and the check has seen it"),
        }
        Ok(())
    }

    pub(super) fn upload(self, device: &Device) -> Result<Fp8Tensor, Error> {
        let layout = Fp8Layout {
            shape: self.shape,
            format: self.scheme.format,
            granularity: self.scheme.granularity,
        };
        let codes = Fp8Tensor::from_codes(&self.codes, &self.scales, layout, device)?;
        Ok(codes)
    }
}

/// Values of stacked matrices \[stack, rows, columns\] as codes, rounded on the host.
pub(super) fn rounded(
    values: &[f32],
    shape: [usize; 3],
    quantizer: Quantizer,
    device: &Device,
) -> Result<Fp8Tensor, Error> {
    quantizer.validate().map_err(moebius::Error::from)?;
    let [_, rows, columns] = shape;
    let scheme = Fp8Scheme::from(quantizer);
    let mut stacked = StackedCodes::new(scheme, shape);
    let size = rows * columns;
    let [down, across] = scheme.grid(rows, columns);
    for (number, values) in values.chunks_exact(size.max(1)).enumerate() {
        let matrix = quantize_host(values, rows, columns, quantizer);
        let matrix = matrix
            .unwrap_or_else(|_| unreachable!("it is rows x columns values, and the settings fit"));
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
    stacked.upload(device)
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
