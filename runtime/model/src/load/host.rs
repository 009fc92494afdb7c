//! Reads weights of a checkpoint to the host, one matrix at a time.

use std::ops::Range;

use burn::tensor::{DType, TensorData};
use moebius::blocks::{BlockFormat, BlockLayout};
use moebius_ops::scaling::Fp8Scheme;
use moebius_weights::Fp8Weight;
use moebius_weights::gguf::{GgmlType, encode};

use super::LoadOptions;
use super::checkpoint::Checkpoint;
use super::kept::Kept;
use super::mapping::{MXFP4_BLOCK, Piece, Plan, Target, scales_of};
use super::narrow::{self, Blocks, read_blocks};
use super::placing::{add, decode_mxfp4, is_whole, matrices_of, place, rounded, rows_in, stacked};
use crate::decoder::Place;
use crate::error::Error;
use crate::families::Form;

/// Weights as they are loaded, on the host.
pub(super) enum OnHost {
    /// FP8 codes and scales.
    Codes(Fp8Weight),
    /// Blocks of codes.
    Blocks(Blocks),
    /// Values in one row, in the dtype that the model computes in or in f32.
    Values(TensorData),
}

impl OnHost {
    /// The values that codes stand for, in f32.
    fn values(self) -> Result<Vec<f32>, Error> {
        Ok(match self {
            Self::Codes(codes) => codes.dequantize()?,
            Self::Blocks(Blocks { bytes, layout }) => {
                let BlockLayout { shape, format } = layout;
                let words = format.to_words(&bytes, shape[2]);
                format.decoded(&words.map_err(moebius::Error::from)?, shape[2])
            }
            Self::Values(values) => values.iter::<f32>().collect(),
        })
    }
}

/// The weights of a checkpoint on the host, loaded by options.
#[derive(Clone, Copy)]
pub(super) struct HostWeights<'a> {
    pub(super) reader: Checkpoint<'a>,
    pub(super) plan: &'a Plan,
    pub(super) options: LoadOptions,
}

impl<'a> HostWeights<'a> {
    pub(super) fn computes_in_f32(self) -> bool {
        self.options.dtype == DType::F32
    }

    /// The number of matrices of a place, and the rows and columns of each.
    pub(super) fn extents(self, at: Place) -> [usize; 3] {
        at.slot.extents(self.shape(at))
    }

    pub(super) fn shape(self, at: Place) -> &'a [usize] {
        &self.target(at).shape
    }

    pub(super) fn target(self, at: Place) -> &'a Target {
        target(self.plan, at)
    }

    /// What a place has on a device, if not values.
    fn kept(self, at: Place) -> Option<Kept> {
        Kept::of(at.slot, self.target(at), self.options)
    }

    /// Zeros in the form of one matrix of a place.
    pub(super) fn blank(self, at: Place) -> OnHost {
        let [_, rows, columns] = self.extents(at);
        let shape = [1, rows, columns];
        match self.kept(at) {
            Some(Kept::Stored(scheme)) => OnHost::Codes(stacked(scheme, shape)),
            Some(Kept::Rounded(by)) => OnHost::Codes(stacked(by.into(), shape)),
            Some(Kept::Blocks(format)) => OnHost::Blocks(Blocks {
                bytes: vec![0; rows * format.row_bytes(columns)],
                layout: BlockLayout { shape, format },
            }),
            None => OnHost::Values(in_one_row(vec![0.0; rows * columns])),
        }
    }

    /// Reads the matrices `of` of a place in blocks of codes, or rounds them to blocks; `None` for a place that has none on the device.
    pub(super) fn blocks(
        self,
        at: Place,
        of: Range<usize>,
        read: &mut dyn FnMut(&str),
    ) -> Result<Option<Blocks>, Error> {
        match self.kept(at) {
            Some(Kept::Blocks(format)) => self.in_blocks(at, of, format, read).map(Some),
            _ => Ok(None),
        }
    }

    /// Reads the matrices `of` of a place in blocks of `format`, or rounds them to it, without the changes of adapters.
    fn in_blocks(
        self,
        at: Place,
        of: Range<usize>,
        format: BlockFormat,
        read: &mut dyn FnMut(&str),
    ) -> Result<Blocks, Error> {
        let target = self.target(at);
        if narrow::stored(at.slot, target) == Some(format) {
            read_blocks(self.reader, (at, target), of, format, read)
        } else {
            self.rounded_to_blocks(at, of, format, read)
        }
    }

    /// Rounds the matrices `of` of a place to blocks, one after the other, as they are written to a GGUF file.
    fn rounded_to_blocks(
        self,
        at: Place,
        of: Range<usize>,
        format: BlockFormat,
        read: &mut dyn FnMut(&str),
    ) -> Result<Blocks, Error> {
        let [_, rows, columns] = self.extents(at);
        let shape = [of.len(), rows, columns];
        let Some(kind) = GgmlType::of_blocks(format) else {
            unreachable!("what is asked for has been checked");
        };
        let mut bytes = Vec::with_capacity(of.len() * rows * format.row_bytes(columns));
        for number in of {
            let values = unchanged(self.reader, self.plan, at, number..number + 1, read)?;
            bytes.extend(encode(self.target(at).name(), kind, &values)?);
        }
        let layout = BlockLayout { shape, format };
        Ok(Blocks { bytes, layout })
    }

    /// Reads the matrices `of` of a place: blocks or codes where the tensors hold such that stay, or values are rounded. Changes of adapters are
    /// in values, those of codes where [`Kept::of`] has none: what codes stand for changes, so that it is the same wherever the changes are.
    /// `read` gets the name of each tensor.
    pub(super) fn weight(
        self,
        at: Place,
        of: Range<usize>,
        read: &mut dyn FnMut(&str),
    ) -> Result<OnHost, Error> {
        let (target, [_, rows, columns]) = (self.target(at), self.extents(at));
        let Some(kept) = Kept::unchanged(at.slot, target, self.options) else {
            let values = self.floats(at, of, self.options.dtype, read)?;
            return Ok(OnHost::Values(values));
        };
        let codes = match kept {
            Kept::Stored(scheme) => OnHost::Codes(self.codes(at, of.clone(), scheme, read)?),
            Kept::Rounded(by) => {
                let values = unchanged(self.reader, self.plan, at, of.clone(), read)?;
                OnHost::Codes(rounded(&values, [of.len(), rows, columns], by)?)
            }
            Kept::Blocks(format) => OnHost::Blocks(self.in_blocks(at, of.clone(), format, read)?),
        };
        if self.kept(at).is_some() {
            return Ok(codes);
        }
        let mut values = codes.values()?;
        change(target, at, &of, &mut values);
        Ok(OnHost::Values(in_one_row(values)))
    }

    /// Reads the values of the matrices `of` of a place, in one row: in `dtype` where that has 16 bits, all tensors of the place are stored so
    /// and no adapter changes the place, in F16 where they are rounded to it, else in f32.
    pub(super) fn floats(
        self,
        at: Place,
        of: Range<usize>,
        dtype: DType,
        read: &mut dyn FnMut(&str),
    ) -> Result<TensorData, Error> {
        let target = self.target(at);
        if let Some(kind) = narrow::rounded_to(at.slot, target, self.options) {
            let values = unchanged(self.reader, self.plan, at, of.clone(), read)?;
            let bytes = encode(target.name(), kind, &values)?;
            let halves = TensorData::from_bytes_vec(bytes, [values.len()], DType::F16);
            if target.changes.is_empty() {
                return Ok(halves);
            }
            let mut values: Vec<f32> = halves.iter::<f32>().collect();
            change(target, at, &of, &mut values);
            return Ok(in_one_row(values));
        }
        let Target {
            pieces, changes, ..
        } = target;
        let mut halves = pieces
            .iter()
            .map(|piece| piece.form != Form::LessOne && self.reader.has_halves(&piece.name, dtype));
        if changes.is_empty() && halves.all(|halves| halves) {
            return self.halves(at, of, dtype, read);
        }
        let values = values_in(self.reader, self.plan, at, of, read)?;
        Ok(in_one_row(values))
    }

    /// Reads values of 16 bits without widening them.
    fn halves(
        self,
        at: Place,
        of: Range<usize>,
        dtype: DType,
        read: &mut dyn FnMut(&str),
    ) -> Result<TensorData, Error> {
        let [_, rows, columns] = self.extents(at);
        let size = rows * columns;
        let mut out = vec![[0_u8; 2]; of.len() * size];
        for piece in &self.target(at).pieces {
            let taken = rows_in(piece, rows) * columns;
            let mut bytes = vec![0; 2 * taken];
            for [number, to] in matrices_of(piece, &of) {
                let from = 2 * (number * taken + piece.skipped * columns);
                self.reader
                    .read_part(&piece.name, from as u64, &mut bytes)?;
                let values = bytes.as_chunks::<2>().0;
                let out = &mut out[to * size..][..size];
                place(piece, values, out, [rows, columns]);
                read(&piece.name);
            }
        }
        let count = out.len();
        let bytes = out.into_flattened();
        Ok(TensorData::from_bytes_vec(bytes, [count], dtype))
    }

    /// Reads the codes of the matrices `of` of a place, whose tensors have this scheme.
    fn codes(
        self,
        at: Place,
        of: Range<usize>,
        scheme: Fp8Scheme,
        read: &mut dyn FnMut(&str),
    ) -> Result<Fp8Weight, Error> {
        let [stack, rows, columns] = self.extents(at);
        let mut codes = stacked(scheme, [of.len(), rows, columns]);
        for piece in &self.target(at).pieces {
            let Some(layout) = &piece.fp8 else {
                unreachable!("all pieces have a scheme");
            };
            match piece.expert {
                Some(expert) if !of.contains(&expert) => continue,
                Some(expert) => {
                    let weight = self.reader.fp8_weight(layout)?;
                    add(&mut codes, piece, expert - of.start, &weight)?;
                }
                None if of.len() == stack => {
                    add(&mut codes, piece, 0, &self.reader.fp8_weight(layout)?)?;
                }
                None => {
                    for (to, number) in of.clone().enumerate() {
                        let weight = self.reader.fp8_matrix(layout, number)?;
                        add(&mut codes, piece, to, &weight)?;
                    }
                }
            }
            read(&piece.name);
        }
        Ok(codes)
    }
}

/// Reads the values of a place with the changes of adapters, and its shape. Peak memory beyond the values is one matrix of a file and one of a
/// change, or none where the file holds the values in the same order and encoding and no adapter changes them. `read` gets the name of each
/// tensor, as often as a matrix of it was read.
pub(super) fn values(
    reader: Checkpoint<'_>,
    plan: &Plan,
    at: Place,
    read: &mut dyn FnMut(&str),
) -> Result<(Vec<f32>, Vec<usize>), Error> {
    let shape = target(plan, at).shape.clone();
    let [stack, ..] = at.slot.extents(&shape);
    Ok((values_in(reader, plan, at, 0..stack, read)?, shape))
}

/// Reads the values of the matrices `of` of a place, as [`values`] does.
pub(super) fn values_in(
    reader: Checkpoint<'_>,
    plan: &Plan,
    at: Place,
    of: Range<usize>,
    read: &mut dyn FnMut(&str),
) -> Result<Vec<f32>, Error> {
    let mut values = unchanged(reader, plan, at, of.clone(), read)?;
    change(target(plan, at), at, &of, &mut values);
    Ok(values)
}

/// Adds the changes of adapters to the values of the matrices `of` of a place.
fn change(
    Target { shape, changes, .. }: &Target,
    at: Place,
    of: &Range<usize>,
    values: &mut [f32],
) {
    let [_, rows, columns] = at.slot.extents(shape);
    let size = rows * columns;
    for change in changes
        .iter()
        .filter(|change| of.contains(&change.matrix()))
    {
        let matrix = &mut values[(change.matrix() - of.start) * size..][..size];
        change.add_to(matrix, [rows, columns]);
    }
}

/// Reads the values of the matrices `of` of a place as the checkpoint has them.
fn unchanged(
    reader: Checkpoint<'_>,
    plan: &Plan,
    at: Place,
    of: Range<usize>,
    read: &mut dyn FnMut(&str),
) -> Result<Vec<f32>, Error> {
    let Target { shape, pieces, .. } = target(plan, at);
    let [stack, rows, columns] = at.slot.extents(shape);
    if let ([piece], true) = (&pieces[..], of.len() == stack)
        && is_whole(piece)
        && piece.fp8.is_none()
        && piece.expert.is_none()
    {
        let values = reader.read_f32(&piece.name)?;
        read(&piece.name);
        return Ok(values);
    }
    let size = rows * columns;
    let mut out = vec![0.0; of.len() * size];
    for piece in pieces {
        for [number, to] in matrices_of(piece, &of) {
            let values = matrix_of(reader, piece, number, [rows, columns])?;
            let out = &mut out[to * size..][..size];
            place(piece, &values, out, [rows, columns]);
            if piece.form == Form::LessOne {
                out.iter_mut().for_each(|value| *value += 1.0);
            }
            read(&piece.name);
        }
    }
    Ok(out)
}

/// Values in one row.
fn in_one_row(values: Vec<f32>) -> TensorData {
    let count = values.len();
    TensorData::new(values, [count])
}

fn target(plan: &Plan, at: Place) -> &Target {
    let target = plan.targets.get(&at);
    target.unwrap_or_else(|| unreachable!("the plan has all places of its model"))
}

/// Reads matrix `number` of a piece, in the file's order.
fn matrix_of(
    reader: Checkpoint<'_>,
    piece: &Piece,
    number: usize,
    [rows, columns]: [usize; 2],
) -> Result<Vec<f32>, Error> {
    let size = rows_in(piece, rows) * columns;
    let from = number * size + piece.skipped * columns;
    if let Some(layout) = &piece.fp8 {
        let of_one = match layout.shape[..] {
            [_, rows, columns] => Some(rows * columns),
            _ => None,
        };
        let weight = match of_one {
            Some(of_one) if of_one == size => reader.fp8_matrix(layout, number),
            _ => reader.fp8_weight(layout),
        };
        let decoded = weight?.dequantize()?;
        return Ok(if decoded.len() == size {
            decoded
        } else {
            decoded[from..][..size].to_vec()
        });
    }
    if piece.form.is_mxfp4() {
        return mxfp4(reader, piece, number, [rows_in(piece, rows), columns]);
    }
    let values = reader.read_f32_part(&piece.name, from as u64, size as u64);
    Ok(values?)
}

fn mxfp4(
    reader: Checkpoint<'_>,
    piece: &Piece,
    number: usize,
    [rows, columns]: [usize; 2],
) -> Result<Vec<f32>, Error> {
    let scales = scales_of(&piece.name);
    let blocks = rows * columns.div_ceil(MXFP4_BLOCK);
    let read = |name: &str, each: usize| -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; blocks * each];
        let at = (number * bytes.len()) as u64;
        reader.read_part(name, at, &mut bytes)?;
        Ok(bytes)
    };
    let codes = read(&piece.name, MXFP4_BLOCK / 2)?;
    Ok(decode_mxfp4(&codes, &read(&scales, 1)?, columns))
}
