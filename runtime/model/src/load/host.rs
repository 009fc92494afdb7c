//! Reads weights of a checkpoint to the host.

use std::collections::TryReserveError;
use std::ops::Range;

use burn::tensor::{DType, Device, TensorData};
use bytemuck::cast_slice_mut;
use moebius::Room;
use moebius::blocks::{BlockFormat, BlockLayout};
use moebius_ops::scaling::Fp8Scheme;
use moebius_weights::gguf::{GgmlType, encode};
use moebius_weights::{Fp8Weight, Unfit, WeightsError, quoted};

use super::LoadOptions;
use super::checkpoint::Checkpoint;
use super::filling::{Kind, Rows};
use super::kept::Kept;
use super::mapping::{Piece, Plan, Target};
use super::narrow::{self, Blocks};
use super::placing::{add, is_whole, matrices_of, place, rounded, rows_in, stacked};
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
            Self::Blocks(Blocks { words, layout, .. }) => {
                let words: Vec<u32> = words.iter::<i64>().map(|word| word as u32).collect();
                layout.format.decoded(&words, layout.shape[2])
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

    /// Whether a place has blocks of codes on a device.
    pub(super) fn has_blocks(self, at: Place) -> bool {
        matches!(self.kept(at), Some(Kept::Blocks(_)))
    }

    /// Zeros in the form of one matrix of a place.
    pub(super) fn blank(self, at: Place) -> OnHost {
        let [_, rows, columns] = self.extents(at);
        let shape = [1, rows, columns];
        match self.kept(at) {
            Some(Kept::Stored(scheme)) => OnHost::Codes(stacked(scheme, shape)),
            Some(Kept::Rounded(by)) => OnHost::Codes(stacked(by.into(), shape)),
            Some(Kept::Blocks(format)) => {
                let layout = BlockLayout { shape, format };
                let words = layout.words_shape();
                let zeros = vec![0_i32; words.iter().product()];
                let words = TensorData::new(zeros, words);
                OnHost::Blocks(Blocks::in_rows(words, layout))
            }
            None => OnHost::Values(in_one_row(vec![0.0; rows * columns])),
        }
    }

    /// The matrices `of` of a place as their rows go to the host without anything in between, if they do: blocks of the file, or values that no
    /// adapter changes and that aren't rounded, in `dtype` where the file has its 16 bits, else in f32. FP8 codes go another way, decoded or not.
    pub(super) fn direct(self, at: Place, of: Range<usize>, dtype: DType) -> Option<Rows<'a>> {
        let target = self.target(at);
        let kind = match Kept::unchanged(at.slot, target, self.options) {
            Some(Kept::Blocks(format)) => {
                let stays =
                    self.kept(at).is_some() && narrow::stored(at.slot, target) == Some(format);
                stays.then_some(Kind::Blocks(format))?
            }
            Some(_) => return None,
            None => {
                let rounded = narrow::rounded_to(at.slot, target, self.options).is_some();
                let coded = target.pieces.iter().any(|piece| piece.fp8.is_some());
                if rounded || coded || !target.changes.is_empty() {
                    return None;
                }
                let in_halves = |piece: &Piece| {
                    piece.form != Form::LessOne && self.reader.has_halves(&piece.name, dtype)
                };
                if target.pieces.iter().all(in_halves) {
                    Kind::Halves(dtype)
                } else {
                    Kind::Floats
                }
            }
        };
        Some(Rows::new(at, target, of, kind))
    }

    /// Reads rows of some places to memory side by side. Where tensors on `device` take it over, words of blocks are [interleaved](Blocks::interleaved).
    pub(super) fn read(
        self,
        all: &[Rows<'_>],
        device: Option<&Device>,
        read: &mut dyn FnMut(&str),
    ) -> Result<Vec<TensorData>, Error> {
        let sizes: Vec<usize> = all.iter().map(Rows::bytes).collect();
        let largest = all.iter().max_by_key(|rows| rows.bytes());
        let name = largest.map_or("", Rows::name);
        let bytes = sizes
            .iter()
            .fold(0, |sum: usize, size| sum.saturating_add(*size));
        let room = Room::new(&sizes, device);
        let mut room = room.map_err(|refused| out_of_memory(name, bytes, refused))?;
        for (rows, out) in all.iter().zip(room.parts()) {
            rows.fill(self.reader, out, read)?;
            if device.is_some_and(Room::stays) {
                rows.interleave(out);
            }
        }
        let filled = all.iter().zip(room.into_bytes());
        Ok(filled.map(|(rows, bytes)| rows.data(bytes)).collect())
    }

    /// Reads rows of one place to memory that no tensor takes over yet.
    fn read_one(self, rows: Rows<'_>, read: &mut dyn FnMut(&str)) -> Result<TensorData, Error> {
        let read = self.read(&[rows], None, read)?.pop();
        Ok(read.unwrap_or_else(|| unreachable!("rows of one place were read")))
    }

    /// Reads the matrices `of` of a place in blocks of `format`, or rounds them to it, one after the other, as they are written to a GGUF file; without
    /// the changes of adapters.
    fn in_blocks(
        self,
        at: Place,
        of: Range<usize>,
        format: BlockFormat,
        read: &mut dyn FnMut(&str),
    ) -> Result<Blocks, Error> {
        let target = self.target(at);
        let [_, rows, columns] = self.extents(at);
        let shape = [of.len(), rows, columns];
        let layout = BlockLayout { shape, format };
        if narrow::stored(at.slot, target) == Some(format) {
            let words = self.read_one(Rows::new(at, target, of, Kind::Blocks(format)), read)?;
            return Ok(Blocks::in_rows(words, layout));
        }
        let Some(kind) = GgmlType::of_blocks(format) else {
            unreachable!("what is asked for has been checked");
        };
        let mut words = Vec::with_capacity(layout.words_shape().iter().product());
        for number in of {
            let values = unchanged(self.reader, self.plan, at, number..number + 1, read)?;
            let bytes = encode(target.name(), kind, &values)?;
            let padded = format
                .to_words(&bytes, columns)
                .map_err(moebius::Error::from)?;
            words.extend(padded.into_iter().map(u32::cast_signed));
        }
        let words = TensorData::new(words, layout.words_shape());
        Ok(Blocks::in_rows(words, layout))
    }

    /// Reads the matrices `of` of a place: blocks or codes where the tensors hold such that stay, or values are rounded. Changes of adapters are
    /// in values, those of codes where [`Kept::of`] has none: what codes stand for changes, so that it is the same wherever the changes are.
    /// `read` gets the name of a tensor after some megabytes.
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
    /// and no adapter changes the place, in F16 or BF16 where they are rounded to it, else in f32.
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
            let dtype = match kind {
                GgmlType::BF16 => DType::BF16,
                _ => DType::F16,
            };
            let halves = TensorData::from_bytes_vec(bytes, [values.len()], dtype);
            if target.changes.is_empty() {
                return Ok(halves);
            }
            let mut values: Vec<f32> = halves.iter::<f32>().collect();
            change(target, at, &of, &mut values);
            return Ok(in_one_row(values));
        }
        if let Some(rows) = self.direct(at, of.clone(), dtype) {
            return self.read_one(rows, read);
        }
        let values = values_in(self.reader, self.plan, at, of, read)?;
        Ok(in_one_row(values))
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
        let pieces = &self.target(at).pieces;
        if let ([piece], true) = (&pieces[..], of.len() == stack)
            && let (true, None, Some(layout)) = (is_whole(piece), piece.expert, &piece.fp8)
        {
            let codes = self.reader.fp8_weight(layout)?;
            read(&piece.name);
            let shape = vec![stack, rows, columns];
            return Ok(Fp8Weight { shape, ..codes });
        }
        let mut codes = stacked(scheme, [of.len(), rows, columns]);
        for piece in pieces {
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

/// Reads the values of a place with the changes of adapters, and its shape. Peak memory beyond the values is a matrix of a file for each thread and one
/// of a change, or little where the file has the rows in their order and no adapter changes them. `read` gets the name of a tensor after some megabytes.
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
    let target = target(plan, at);
    let [_, rows, columns] = at.slot.extents(&target.shape);
    let size = rows.saturating_mul(columns);
    let count = of.len().saturating_mul(size);
    let mut out: Vec<f32> = Vec::new();
    let room = out.try_reserve_exact(count);
    let refused = |error| out_of_memory(target.name(), count.saturating_mul(4), error);
    room.map_err(refused)?;
    out.resize(count, 0.0);
    if target.pieces.iter().all(|piece| piece.fp8.is_none()) {
        let all = Rows::new(at, target, of, Kind::Floats);
        all.fill(reader, cast_slice_mut(&mut out), read)?;
        return Ok(out);
    }
    for piece in &target.pieces {
        for [number, to] in matrices_of(piece, &of) {
            let values = matrix_of(reader, piece, number, [rows, columns])?;
            place(
                piece,
                &values,
                &mut out[to * size..][..size],
                [rows, columns],
            );
            read(&piece.name);
        }
    }
    Ok(out)
}

/// The error that there is no memory for values of a tensor and of others beside it.
fn out_of_memory(name: &str, bytes: usize, refused: TryReserveError) -> Error {
    let expected = format!("memory for {bytes} bytes");
    WeightsError::OutOfMemory(Unfit::new(quoted(name), expected, refused)).into()
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

/// Reads matrix `number` of a piece of FP8 codes, or of values beside such, in the file's order.
fn matrix_of(
    reader: Checkpoint<'_>,
    piece: &Piece,
    number: usize,
    [rows, columns]: [usize; 2],
) -> Result<Vec<f32>, Error> {
    let size = rows_in(piece, rows) * columns;
    let from = number * size + piece.skipped * columns;
    let Some(layout) = &piece.fp8 else {
        return Ok(reader.read_f32_part(&piece.name, from as u64, size as u64)?);
    };
    let of_one = match layout.shape[..] {
        [_, rows, columns] => Some(rows * columns),
        _ => None,
    };
    let weight = match of_one {
        Some(of_one) if of_one == size => reader.fp8_matrix(layout, number),
        _ => reader.fp8_weight(layout),
    };
    let decoded = weight?.dequantize()?;
    Ok(if decoded.len() == size {
        decoded
    } else {
        decoded[from..][..size].to_vec()
    })
}
