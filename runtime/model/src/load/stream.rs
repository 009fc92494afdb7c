//! Streams the weights of a model from a checkpoint, one matrix at a time.

use burn::tensor::{DType, Device, Tensor};
use moebius::fp8::{Fp8Tensor, Weight};
use moebius::nn::takes_half_weights;

use super::checkpoint::Checkpoint;
use super::mapping::{MXFP4_BLOCK, Piece, Plan, Target};
use super::placing::{add, common_scheme, decode_mxfp4, place, rounded, rows_in, stacked, upload};
use super::{LoadOptions, Progress};
use crate::decoder::{Place, Slot, Weights, floating, uploaded};
use crate::error::Error;
use crate::families::{Form, Part};

/// Source of the weights of a checkpoint for a device.
pub(super) struct WeightStream<'a> {
    pub(super) reader: Checkpoint<'a>,
    pub(super) plan: &'a Plan,
    pub(super) device: &'a Device,
    pub(super) options: LoadOptions,
    pub(super) progress: &'a mut dyn FnMut(Progress<'_>),
    /// Bytes of the checkpoint that had been read before.
    pub(super) before: u64,
}

impl WeightStream<'_> {
    fn computes_in_f32(&self) -> bool {
        self.options.dtype == DType::F32
    }

    fn report(&mut self, name: &str) {
        (self.progress)(Progress {
            tensor: name,
            read: self.reader.bytes_read() - self.before,
            bytes: self.plan.bytes,
        });
    }

    /// The values and the shape of a place.
    fn values(&mut self, at: Place) -> Result<(Vec<f32>, Vec<usize>), Error> {
        let (reader, plan) = (self.reader, self.plan);
        values(reader, plan, at, &mut |name| self.report(name))
    }

    fn tensor<const D: usize>(&mut self, at: Place) -> Result<Tensor<D>, Error> {
        let (values, shape) = self.values(at)?;
        let narrow = self.options.narrow_embedding
            && matches!(at.slot, Slot::Embedding | Slot::Head)
            && self.computes_in_f32()
            && takes_half_weights(self.device);
        let dtype = if narrow {
            DType::BF16
        } else {
            self.options.dtype
        };
        Ok(uploaded(values, &shape, (self.device, dtype)))
    }

    /// The FP8 codes of a place, if all its pieces hold codes of one scheme that can be stacked.
    fn codes(&mut self, at: Place) -> Result<Option<Fp8Tensor>, Error> {
        if !self.options.keep_fp8 || !self.computes_in_f32() {
            return Ok(None);
        }
        let Target { shape, pieces } = target(self.plan, at);
        let [stack, rows, columns] = at.slot.extents(shape);
        let Some(scheme) = common_scheme(pieces, [rows, columns]) else {
            return Ok(None);
        };
        let mut codes = stacked(scheme, [stack, rows, columns]);
        for piece in pieces {
            let Some(layout) = &piece.fp8 else {
                unreachable!("all pieces have a scheme");
            };
            add(&mut codes, piece, &self.reader.fp8_weight(layout)?)?;
            self.report(&piece.name);
        }
        Ok(Some(upload(&codes, self.device)?))
    }

    /// A weight as codes if the file has codes, else as values.
    fn any<const D: usize>(&mut self, at: Place) -> Result<Weight<D>, Error> {
        let parts = at.slot.parts();
        if let Some(codes) = self.codes(at)? {
            return Ok(Weight::from_fp8(codes, parts)?);
        }
        if let Some(quantizer) = self.options.round.filter(|_| self.computes_in_f32()) {
            let (values, shape) = self.values(at)?;
            let extents = at.slot.extents(&shape);
            let codes = rounded(&values, extents, quantizer)?;
            return Ok(Weight::from_fp8(upload(&codes, self.device)?, parts)?);
        }
        Ok(floating(self.tensor(at)?, at.slot))
    }
}

/// Reads the values of a place, and its shape. Peak memory beyond the values is one matrix of a file, or none where the file holds the
/// values in the same order and encoding. `read` gets the name of each tensor.
pub(super) fn values(
    reader: Checkpoint<'_>,
    plan: &Plan,
    at: Place,
    read: &mut dyn FnMut(&str),
) -> Result<(Vec<f32>, Vec<usize>), Error> {
    let Target { shape, pieces } = target(plan, at);
    if let [piece] = &pieces[..] {
        let plain = piece.form == Form::Plain && piece.part == Part::Whole;
        if plain && piece.fp8.is_none() && piece.expert.is_none() {
            let values = reader.read_f32(&piece.name)?;
            read(&piece.name);
            return Ok((values, shape.clone()));
        }
    }
    let [stack, rows, columns] = at.slot.extents(shape);
    let size = rows * columns;
    let mut out = vec![0.0; stack * size];
    for piece in pieces {
        let experts = match piece.expert {
            Some(expert) => expert..expert + 1,
            None => 0..stack,
        };
        for (number, expert) in experts.enumerate() {
            let out = &mut out[expert * size..][..size];
            fill(reader, piece, number, (out, [rows, columns]))?;
        }
        read(&piece.name);
    }
    Ok((out, shape.clone()))
}

/// Reads matrix `number` of those that are stacked in a place, like [`values`].
pub(super) fn matrix(
    reader: Checkpoint<'_>,
    plan: &Plan,
    at: Place,
    number: usize,
) -> Result<Vec<f32>, Error> {
    let Target { shape, pieces } = target(plan, at);
    let [_, rows, columns] = at.slot.extents(shape);
    let mut out = vec![0.0; rows * columns];
    for piece in pieces {
        let within = match piece.expert {
            Some(expert) if expert != number => continue,
            Some(_) => 0,
            None => number,
        };
        fill(reader, piece, within, (&mut out[..], [rows, columns]))?;
    }
    Ok(out)
}

/// Reads matrix `number` of a piece to the rows that it has in `out`, a matrix of these rows and columns.
fn fill(
    reader: Checkpoint<'_>,
    piece: &Piece,
    number: usize,
    (out, [rows, columns]): (&mut [f32], [usize; 2]),
) -> Result<(), Error> {
    let values = matrix_of(reader, piece, number, [rows, columns])?;
    place(piece, &values, out, [rows, columns]);
    if piece.form == Form::LessOne {
        out.iter_mut().for_each(|value| *value += 1.0);
    }
    Ok(())
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
        let decoded = reader.fp8_weight(layout)?.dequantize()?;
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
    let stem = piece.name.strip_suffix("_blocks").unwrap_or(&piece.name);
    let scales = format!("{stem}_scales");
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

impl Weights for WeightStream<'_> {
    fn vector(&mut self, at: Place) -> Result<Tensor<1>, Error> {
        self.tensor(at)
    }

    fn matrix(&mut self, at: Place) -> Result<Tensor<2>, Error> {
        self.tensor(at)
    }

    fn weight(&mut self, at: Place) -> Result<Weight<2>, Error> {
        self.any(at)
    }

    fn stack(&mut self, at: Place) -> Result<Weight<3>, Error> {
        self.any(at)
    }
}
