//! Shapes of codes, scales and values.

use super::{AmaxCall, QuantizeCall, ScaledCodesMetadata};
use crate::ops::ScalesMetadata;
use crate::ops::results::specs;
use burn::backend::fusion::custom::TensorSpec;
use burn::tensor::{DType, Shape};
use moebius_ops::Quantization;
use moebius_ops::scaling::ScaleType;

pub(super) fn quantized(_x: &TensorSpec, call: &QuantizeCall) -> ScaledCodesMetadata {
    let mut results = specs(Quantization::Quantize(call.problem));
    let (words, scales) = (results.take(), results.take());
    ScaledCodesMetadata {
        words,
        scales: match call.problem.granularity().scale_type() {
            ScaleType::F32 => ScalesMetadata::F32(scales),
            ScaleType::E8M0 => ScalesMetadata::E8M0(scales),
        },
    }
}

pub(super) fn words(_x: &TensorSpec, _scales: &ScalesMetadata, call: &QuantizeCall) -> TensorSpec {
    specs(Quantization::QuantizeBy(call.problem)).take()
}

pub(super) fn values(
    _words: &TensorSpec,
    _scales: &ScalesMetadata,
    call: &QuantizeCall,
) -> TensorSpec {
    specs(Quantization::Dequantize(call.problem)).take()
}

pub(super) fn amax(_x: &TensorSpec, _call: &AmaxCall) -> TensorSpec {
    TensorSpec::new(Shape::from([1]), DType::F32)
}

pub(super) fn faked(x: &TensorSpec, _call: &QuantizeCall) -> TensorSpec {
    x.clone()
}

pub(super) fn faked_by(
    x: &TensorSpec,
    _scales: &ScalesMetadata,
    _call: &QuantizeCall,
) -> TensorSpec {
    x.clone()
}
