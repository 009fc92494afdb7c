//! What makes codes of matrices, and how far these are from the values.

use std::error::Error;

use moebius_ops::quantize::{Quantized, Quantizer, quantize_host};

/// Why a quantiser gave nothing.
pub type QuantizeError = Box<dyn Error + Send + Sync>;

/// What makes codes and scales of a matrix: takes values, rows and columns.
///
/// It returns one code a value and the scales of the scheme asked for, one where the whole matrix shares
/// it. A matrix without values is not handed to it.
pub type Quantize<'a> = dyn FnMut(&[f32], usize, usize) -> Result<Quantized, QuantizeError> + 'a;

/// [`quantize_host`], in the form in which a conversion takes a quantiser.
pub fn host_quantizer(
    quantizer: impl Into<Quantizer>,
) -> impl FnMut(&[f32], usize, usize) -> Result<Quantized, QuantizeError> {
    let quantizer = quantizer.into();
    move |values, rows, columns| Ok(quantize_host(values, rows, columns, quantizer)?)
}

/// How far decoded values are from the originals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Distance {
    squares: f64,
    reference: f64,
    /// Largest |difference|.
    pub(super) max: f32,
    /// Originals that are NaN or infinite, which take no part.
    pub(super) non_finite: u64,
}

impl Distance {
    pub(super) fn add(&mut self, original: f32, decoded: f32) {
        if !original.is_finite() {
            self.non_finite += 1;
            return;
        }
        let difference = f64::from(decoded) - f64::from(original);
        self.squares += difference * difference;
        self.reference += f64::from(original) * f64::from(original);
        // NaN, which no encoding of a number gives, must not vanish in a maximum.
        let size = difference.abs() as f32;
        if size > self.max || size.is_nan() {
            self.max = size;
        }
    }

    /// ‖decoded − original‖₂ / ‖original‖₂; 0 for zeros that stay zeros.
    pub(super) fn relative_rms(&self) -> f64 {
        if self.squares == 0.0 {
            0.0
        } else {
            (self.squares / self.reference).sqrt()
        }
    }
}
