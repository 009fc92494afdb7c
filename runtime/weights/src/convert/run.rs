//! Execution of a conversion's steps, each of which reads and writes one tensor; the quantiser, and the measure of its error.

use std::error::Error;

use moebius_ops::quantize::{Quantized, Quantizer, quantize_host};
use moebius_ops::scaling::Fp8Scheme;

use super::plan::Step;
use super::{Action, ConvertedLayer};
use crate::error::{WeightsError, quoted};
use crate::fp8::{Matrix, StoredFp8, check_counts, dequantize};
use crate::reader::Reader;
use crate::source::CHUNK;
use crate::writer::{TensorSpec, Writer};

/// Executes a step; `None` where a tensor was copied.
pub(super) fn step(
    source: &Reader,
    scheme: Fp8Scheme,
    step: &Step,
    writer: &mut Writer,
    quantize: &mut Quantize<'_>,
) -> Result<Option<ConvertedLayer>, WeightsError> {
    let info = source.info(step.name())?;
    let mut run = Run {
        source,
        scheme,
        specs: TensorSpec::of_fp8(step.name(), &info.shape, scheme),
        matrix: Matrix::of(&info.shape),
        writer,
        quantize,
        distance: Distance::default(),
        after: 0,
    };
    let (action, from, before) = match step {
        Step::Copy(name) => return copy(source, name, run.writer).map(|()| None),
        Step::Quantize(name) => {
            run.quantize(name)?;
            (Action::Quantized, info.dtype.to_string(), info.bytes())
        }
        Step::Carry(layout) | Step::Requantize(layout) => {
            let action = match step {
                Step::Carry(_) => run.carry(layout).map(|()| Action::Carried),
                _ => run.requantize(layout).map(|()| Action::Requantized),
            };
            (action?, layout.scheme.to_string(), before(source, layout)?)
        }
    };
    Ok(Some(ConvertedLayer {
        name: step.name().to_owned(),
        shape: info.shape.clone(),
        action,
        from,
        bytes_before: before,
        bytes_after: run.after,
        relative_rms: run.distance.relative_rms(),
        max_abs: run.distance.max,
        non_finite: run.distance.non_finite,
    }))
}

/// Bytes of the codes and scales of `layout`.
fn before(source: &Reader, layout: &StoredFp8) -> Result<u64, WeightsError> {
    let scales = match &layout.scale {
        Some(name) => source.info(name)?.bytes(),
        None => 0,
    };
    Ok(source.info(&layout.name)?.bytes() + scales)
}

/// Copies a tensor, one buffer at a time.
fn copy(source: &Reader, name: &str, writer: &mut Writer) -> Result<(), WeightsError> {
    let bytes = source.info(name)?.bytes();
    let mut buffer = vec![0; bytes.min(CHUNK as u64) as usize];
    let mut at = 0;
    while at < bytes {
        let part = (bytes - at).min(CHUNK as u64) as usize;
        source.read_part(name, at, &mut buffer[..part])?;
        writer.append(name, &buffer[..part])?;
        at += part as u64;
    }
    Ok(())
}

/// Conversion of one weight.
struct Run<'a> {
    source: &'a Reader,
    scheme: Fp8Scheme,
    /// Declarations of the codes and scales to write.
    specs: [TensorSpec; 2],
    matrix: Matrix,
    writer: &'a mut Writer,
    quantize: &'a mut Quantize<'a>,
    distance: Distance,
    after: u64,
}

impl Run<'_> {
    /// Quantises a floating-point weight, expert by expert.
    fn quantize(&mut self, name: &str) -> Result<(), WeightsError> {
        let count = self.matrix.elements() as u64;
        for expert in 0..self.matrix.experts as u64 {
            let range = expert * count..(expert + 1) * count;
            let values = self.source.read_f32_part(name, range)?;
            self.write(&values)?;
        }
        Ok(())
    }

    /// Decodes and quantises an FP8 weight of another scheme, expert by expert.
    fn requantize(&mut self, layout: &StoredFp8) -> Result<(), WeightsError> {
        let scales = self.source.fp8_scales(layout)?.to_f32();
        let [down, across] = layout.scheme.grid(self.matrix.rows, self.matrix.columns);
        let count = self.matrix.elements();
        for expert in 0..self.matrix.experts {
            let mut codes = self.source.room(&layout.name, count as u64)?;
            codes.resize(count, 0);
            let at = (expert * count) as u64;
            self.source.read_part(&layout.name, at, &mut codes)?;
            let scales = &scales[expert * down * across..][..down * across];
            let mut values = self.source.room(&layout.name, count as u64)?;
            let take = |row: &[f32]| values.extend_from_slice(row);
            dequantize(layout.scheme, &self.matrix, &codes, scales, take);
            drop(codes);
            self.write(&values)?;
        }
        Ok(())
    }

    /// Writes the same codes, and the scales in the form of this writer.
    fn carry(&mut self, layout: &StoredFp8) -> Result<(), WeightsError> {
        copy(self.source, &layout.name, self.writer)?;
        self.after += self.source.info(&layout.name)?.bytes();
        let scales = self.source.fp8_scales(layout)?;
        self.append_scales(&scales.to_bytes())
    }

    /// Quantises and writes one matrix, and measures the error.
    fn write(&mut self, values: &[f32]) -> Result<(), WeightsError> {
        let Matrix { rows, columns, .. } = self.matrix;
        let name = self.specs[0].name.as_str();
        let quantized = if values.is_empty() {
            quantize_host(values, rows, columns, self.scheme).map_err(Into::into)
        } else {
            (self.quantize)(values, rows, columns)
        };
        let quantized = quantized.map_err(|source| WeightsError::Quantize {
            tensor: quoted(name),
            source,
        })?;
        let [down, across] = self.scheme.grid(rows, columns);
        let kind = self.scheme.granularity.scale_type();
        let codes = [values.len(), quantized.codes.len()];
        check_counts(name, codes, down * across, kind, &quantized.scales)?;
        self.writer.append(name, &quantized.codes)?;
        self.after += quantized.codes.len() as u64;
        self.append_scales(&quantized.scales.to_bytes())?;
        let scales = quantized.scales.to_f32();
        let mut originals = values.chunks_exact(columns.max(1));
        let distance = &mut self.distance;
        let take = |row: &[f32]| {
            let pairs = originals.next().unwrap_or_default().iter().zip(row);
            pairs.for_each(|(&original, &decoded)| distance.add(original, decoded));
        };
        dequantize(self.scheme, &self.matrix, &quantized.codes, &scales, take);
        Ok(())
    }

    fn append_scales(&mut self, bytes: &[u8]) -> Result<(), WeightsError> {
        self.after += bytes.len() as u64;
        self.writer.append(&self.specs[1].name, bytes)
    }
}

/// Error of a quantiser.
pub type QuantizeError = Box<dyn Error + Send + Sync>;

/// A quantiser of one matrix, which takes the values, rows and columns.
///
/// It returns one code per value and the scales of the requested scheme: a single one where the whole matrix shares it. It never gets a
/// matrix without values.
pub type Quantize<'a> = dyn FnMut(&[f32], usize, usize) -> Result<Quantized, QuantizeError> + 'a;

/// [`quantize_host`] as a quantiser for a conversion.
pub fn host_quantizer(
    quantizer: impl Into<Quantizer>,
) -> impl FnMut(&[f32], usize, usize) -> Result<Quantized, QuantizeError> {
    let quantizer = quantizer.into();
    move |values, rows, columns| Ok(quantize_host(values, rows, columns, quantizer)?)
}

/// Difference between decoded values and the originals.
#[derive(Clone, Copy, Debug, Default)]
struct Distance {
    squares: f64,
    reference: f64,
    /// Largest |difference|.
    max: f32,
    /// Number of originals that are NaN or infinite, which are left out of the measure.
    non_finite: u64,
}

impl Distance {
    fn add(&mut self, original: f32, decoded: f32) {
        if !original.is_finite() {
            self.non_finite += 1;
            return;
        }
        let difference = f64::from(decoded) - f64::from(original);
        self.squares += difference * difference;
        self.reference += f64::from(original) * f64::from(original);
        // A NaN, which no encoding of a number gives, must not vanish in the maximum.
        let size = difference.abs() as f32;
        if size > self.max || size.is_nan() {
            self.max = size;
        }
    }

    /// Relative error ‖decoded − original‖₂ / ‖original‖₂; 0 where zeros stay zeros.
    fn relative_rms(&self) -> f64 {
        if self.squares == 0.0 {
            0.0
        } else {
            (self.squares / self.reference).sqrt()
        }
    }
}
