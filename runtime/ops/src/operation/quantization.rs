//! Casts to FP8 and back, codes and scales of matrices.

use super::{Scalar, Signature, TensorInfo, f32s, floats, signature, words};
use crate::element::Element;
use crate::error::ShapeError;
use crate::fp8::{self, Overflow};
use crate::quantize::Problem;
use crate::scaling::ScaleType;
use serde::{Deserialize, Serialize};

/// An operation of [`crate::fp8`] or [`crate::quantize`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Quantization {
    /// Codes of a flat tensor.
    Encode {
        /// The cast.
        problem: fp8::Problem,
        /// What becomes of magnitudes beyond the largest value.
        overflow: Overflow,
    },
    /// A flat tensor of codes.
    Decode(fp8::Problem),
    /// Codes and scales of x.
    Quantize(Problem),
    /// Codes of x under given scales.
    QuantizeBy(Problem),
    /// Values of codes and scales.
    Dequantize(Problem),
    /// x as its codes have it.
    FakeQuantize(Problem),
    /// The same under given scales.
    FakeQuantizeBy(Problem),
    /// The largest finite magnitude of a tensor of any shape; 0 without elements.
    Amax {
        /// Of x.
        shape: Vec<usize>,
        /// Type of x.
        element: Element,
    },
}

/// Scales as words or f32s.
fn scales(p: &Problem) -> TensorInfo {
    match p.granularity().scale_type() {
        ScaleType::F32 => f32s("scales", p.scales_shape()),
        ScaleType::E8M0 => words("scales", p.scales_shape()),
    }
}

impl Quantization {
    pub(super) fn signature(&self) -> Signature {
        let x = |p: &Problem| Some(floats("x", p.shape(), p.element()));
        let y = |p: &Problem| Some(floats("y", p.shape(), p.element()));
        let codes = |p: &Problem| Some(words("codes", p.words_shape()));
        match self {
            Self::Encode { problem: p, .. } => signature(
                "fp8 encode",
                [Some(f32s("x", [p.len()]))],
                [Some(words("codes", [p.words()]))],
            ),
            Self::Decode(p) => signature(
                "fp8 decode",
                [Some(words("codes", [p.words()]))],
                [Some(f32s("y", [p.len()]))],
            ),
            Self::Quantize(p) => signature("fp8 quantize", [x(p)], [codes(p), Some(scales(p))]),
            Self::QuantizeBy(p) => signature(
                "fp8 quantize by scales",
                [x(p), Some(scales(p))],
                [codes(p)],
            ),
            Self::Dequantize(p) => signature("fp8 dequantize", [codes(p), Some(scales(p))], [y(p)]),
            Self::FakeQuantize(p) => signature("fp8 fake quantize", [x(p)], [y(p)]),
            Self::FakeQuantizeBy(p) => signature(
                "fp8 fake quantize by scales",
                [x(p), Some(scales(p))],
                [y(p)],
            ),
            Self::Amax { shape, element } => {
                let x = TensorInfo {
                    name: "x",
                    shape: shape.clone(),
                    scalar: Scalar::Float(*element),
                };
                signature("fp8 amax", [Some(x)], [Some(f32s("amax", [1]))])
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), ShapeError> {
        match self {
            Self::Encode { .. } | Self::Decode(_) => Ok(()),
            Self::Quantize(p)
            | Self::QuantizeBy(p)
            | Self::Dequantize(p)
            | Self::FakeQuantize(p)
            | Self::FakeQuantizeBy(p) => p.check(),
            Self::Amax { shape, .. } => {
                let values = shape
                    .iter()
                    .try_fold(1usize, |n, size| n.checked_mul(*size));
                match values {
                    Some(n) if n <= i32::MAX as usize => Ok(()),
                    _ => {
                        let got = format!("{shape:?}");
                        Err(ShapeError::new(
                            "values of an amax",
                            "at most 2^31 - 1",
                            got,
                        ))
                    }
                }
            }
        }
    }
}
