//! Casts to and from FP8, and the quantisation of matrices into codes and scales.

use super::operands::{Computed, Operands};
use super::{HostTensor, Scalar, Signature, signature};
use crate::element::Element;
use crate::error::{INDEX, Mismatch, fits};
use crate::fp8::{self, Overflow, decode_host, encode_host};
use crate::quantize::{
    Problem, Scales, amax_reference, dequantize_reference, encode_reference, scales_reference,
};
use crate::scaling::{Granularity, ScaleType};
use serde::{Deserialize, Serialize};

/// An operation of [`crate::fp8`] or [`crate::quantize`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Quantize {
    /// Encodes a flat tensor.
    Encode {
        /// The description of the cast.
        problem: fp8::Problem,
        /// How to encode magnitudes beyond the largest value.
        overflow: Overflow,
    },
    /// Decodes a flat tensor of codes.
    Decode(fp8::Problem),
    /// Computes codes and scales of x.
    Quantize(Problem),
    /// Computes codes of x under given scales.
    QuantizeBy(Problem),
    /// Computes values from codes and scales.
    Dequantize(Problem),
    /// Quantises and dequantises x.
    FakeQuantize(Problem),
    /// Quantises and dequantises x under given scales.
    FakeQuantizeBy(Problem),
    /// Computes the largest finite magnitude of a tensor of any shape; 0 without elements.
    Amax {
        /// Shape of x.
        shape: Vec<usize>,
        /// Type of x.
        element: Element,
    },
}

impl Quantize {
    pub(super) fn signature(&self) -> Signature {
        match self {
            Self::Encode { problem, .. } => flat("fp8 encode", problem),
            Self::Decode(problem) => flat("fp8 decode", problem),
            Self::Quantize(p) => matrices("fp8 quantize", p),
            Self::QuantizeBy(p) => matrices("fp8 quantize by scales", p),
            Self::Dequantize(p) => matrices("fp8 dequantize", p),
            Self::FakeQuantize(p) => matrices("fp8 fake quantize", p),
            Self::FakeQuantizeBy(p) => matrices("fp8 fake quantize by scales", p),
            Self::Amax { shape, element } => {
                let mut signature = signature("fp8 amax", *element, &[]);
                signature.operands[0].shape.clone_from(shape);
                signature
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), Mismatch> {
        match self {
            Self::Encode { .. } | Self::Decode(_) => Ok(()),
            Self::Quantize(p)
            | Self::QuantizeBy(p)
            | Self::Dequantize(p)
            | Self::FakeQuantize(p)
            | Self::FakeQuantizeBy(p) => p.check(),
            Self::Amax { shape, .. } => {
                let got = format_args!("{shape:?}");
                Mismatch::unless(fits(shape), "values of an amax", INDEX, got)
            }
        }
    }

    pub(super) fn compute(&self, b: &Operands<'_>) -> Result<Computed, Mismatch> {
        let by = |p: &Problem| given_scales(p, b);
        Ok(match self {
            Self::Encode { problem, overflow } => {
                let x = b.f32s("x").into_iter();
                let codes = x.map(|x| encode_host(x, problem.format(), *overflow));
                vec![("codes", fp8::pack(&codes.collect::<Vec<_>>()).into())]
            }
            Self::Decode(p) => {
                let codes = fp8::unpack(b.words("codes"), p.len());
                let value = |code| f64::from(decode_host(code, p.format()));
                vec![("y", codes.into_iter().map(value).collect::<Vec<_>>().into())]
            }
            Self::Quantize(p) => {
                let scales = scales_reference(p, &b.f32s("x"))?;
                let codes = encode_reference(p, &b.f32s("x"), &scales)?;
                vec![("codes", codes.into()), ("scales", scales.into())]
            }
            Self::QuantizeBy(p) => {
                let codes = encode_reference(p, &b.f32s("x"), &by(p))?;
                vec![("codes", codes.into())]
            }
            Self::Dequantize(p) => {
                let y = dequantize_reference(p, b.words("codes"), &by(p))?;
                vec![("y", y.into())]
            }
            Self::FakeQuantize(p) => {
                let scales = scales_reference(p, &b.f32s("x"))?;
                vec![("y", rounded(p, b, &scales)?.into())]
            }
            Self::FakeQuantizeBy(p) => vec![("y", rounded(p, b, &by(p))?.into())],
            Self::Amax { .. } => {
                let amax = amax_reference(&b.f32s("x"));
                vec![("amax", HostTensor::of_f32(&[amax]))]
            }
        })
    }
}

/// x after quantisation and dequantisation under `scales`.
fn rounded(p: &Problem, b: &Operands<'_>, scales: &Scales) -> Result<Vec<f64>, Mismatch> {
    let codes = encode_reference(p, &b.f32s("x"), scales)?;
    dequantize_reference(p, &codes, scales)
}

fn given_scales(p: &Problem, b: &Operands<'_>) -> Scales {
    match p.granularity().scale_type() {
        ScaleType::F32 => Scales::F32(b.f32s("scales")),
        ScaleType::E8M0 => Scales::E8M0(b.words("scales").to_vec()),
    }
}

impl From<Scales> for HostTensor {
    fn from(scales: Scales) -> Self {
        match scales {
            Scales::F32(scales) => Self::of_f32(&scales),
            Scales::E8M0(words) => Self::Words(words),
        }
    }
}

/// The signature `name` of a cast: n values in c words.
fn flat(name: &str, p: &fp8::Problem) -> Signature {
    signature(name, Element::F32, &[('n', p.len()), ('c', p.words())])
}

/// The signature `name` of M matrices of m · n values in m · c words, with d · a scales each: f32, or words of E8M0 bytes.
fn matrices(name: &str, p: &Problem) -> Signature {
    let ([matrices, rows, columns], [_, down, across]) = (p.shape(), p.scales_shape());
    let sizes = [
        ('M', matrices),
        ('m', rows),
        ('n', columns),
        ('c', p.words_shape()[2]),
        ('d', down),
        ('a', across),
    ];
    let mut signature = signature(name, p.element(), &sizes);
    let tensors = signature.operands.iter_mut().chain(&mut signature.results);
    for scales in tensors.filter(|tensor| tensor.name == "scales") {
        scales.scalar = scale_scalar(p.granularity());
    }
    signature
}

pub(super) fn scale_scalar(granularity: Granularity) -> Scalar {
    match granularity.scale_type() {
        ScaleType::F32 => Scalar::Float(Element::F32),
        ScaleType::E8M0 => Scalar::Word,
    }
}
