//! Casts to FP8 and back, codes and scales of matrices.

use super::{Scalar, Signature, table};
use crate::element::Element;
use crate::error::ShapeError;
use crate::fp8::{self, Overflow};
use crate::quantize::Problem;
use crate::scaling::{Granularity, ScaleType};
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

impl Quantization {
    pub(super) fn signature(&self) -> Signature {
        match self {
            Self::Encode { problem, .. } => flat(problem, ["fp8 encode", "x n f", "codes c w"]),
            Self::Decode(problem) => flat(problem, ["fp8 decode", "codes c w", "y n f"]),
            Self::Quantize(p) => {
                matrices(p, "fp8 quantize", ["x Mmn", "codes Mmc w, scales Mda w"])
            }
            Self::QuantizeBy(p) => {
                let io = ["x Mmn, scales Mda w", "codes Mmc w"];
                matrices(p, "fp8 quantize by scales", io)
            }
            Self::Dequantize(p) => {
                matrices(p, "fp8 dequantize", ["codes Mmc w, scales Mda w", "y Mmn"])
            }
            Self::FakeQuantize(p) => matrices(p, "fp8 fake quantize", ["x Mmn", "y Mmn"]),
            Self::FakeQuantizeBy(p) => {
                let io = ["x Mmn, scales Mda w", "y Mmn"];
                matrices(p, "fp8 fake quantize by scales", io)
            }
            Self::Amax { shape, element } => {
                let mut signature = table(*element, &[], ["fp8 amax", "x n", "amax 1 f"]);
                signature.operands[0].shape.clone_from(shape);
                signature
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

/// n values in c words.
fn flat(p: &fp8::Problem, of: [&'static str; 3]) -> Signature {
    table(Element::F32, &[('n', p.len()), ('c', p.words())], of)
}

/// M matrices of m · n values in m · c words, with d · a scales, which are f32s unless they are powers of two.
fn matrices(p: &Problem, name: &'static str, [reads, writes]: [&'static str; 2]) -> Signature {
    let ([matrices, rows, columns], [_, down, across]) = (p.shape(), p.scales_shape());
    let sizes = [
        ('M', matrices),
        ('m', rows),
        ('n', columns),
        ('c', p.words_shape()[2]),
        ('d', down),
        ('a', across),
    ];
    let mut signature = table(p.element(), &sizes, [name, reads, writes]);
    let tensors = signature.operands.iter_mut().chain(&mut signature.results);
    for scales in tensors.filter(|tensor| tensor.name == "scales") {
        scales.scalar = scale_scalar(p.granularity());
    }
    signature
}

/// The type of scales.
pub(super) fn scale_scalar(granularity: Granularity) -> Scalar {
    match granularity.scale_type() {
        ScaleType::F32 => Scalar::Float(Element::F32),
        ScaleType::E8M0 => Scalar::Word,
    }
}
