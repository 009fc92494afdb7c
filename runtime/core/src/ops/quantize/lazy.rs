//! Shapes of codes, scales and values.

use super::{AmaxCall, QuantizeCall, ScaledCodesMetadata, dtype};
use crate::ops::ScalesMetadata;
use burn::backend::fusion::custom::TensorSpec;
use burn::tensor::{DType, Shape};
use moebius_ops::scaling::ScaleType;

pub(super) fn quantized(_x: &TensorSpec, call: &QuantizeCall) -> ScaledCodesMetadata {
    let shape = Shape::from(call.problem.scales_shape());
    let scales = match call.problem.granularity().scale_type() {
        ScaleType::F32 => ScalesMetadata::F32(TensorSpec::new(shape, DType::F32)),
        ScaleType::E8M0 => ScalesMetadata::E8M0(TensorSpec::new(shape, DType::I32)),
    };
    ScaledCodesMetadata {
        words: words_of(call),
        scales,
    }
}

fn words_of(call: &QuantizeCall) -> TensorSpec {
    TensorSpec::new(Shape::from(call.problem.words_shape()), DType::I32)
}

pub(super) fn words(_x: &TensorSpec, _scales: &ScalesMetadata, call: &QuantizeCall) -> TensorSpec {
    words_of(call)
}

pub(super) fn values(
    _words: &TensorSpec,
    _scales: &ScalesMetadata,
    call: &QuantizeCall,
) -> TensorSpec {
    let dtype = dtype(call.problem.element());
    TensorSpec::new(Shape::from(call.problem.shape()), dtype)
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
