//! Shapes of the casts.

use super::Fp8Cast;
use crate::ops::results::specs;
use burn::backend::fusion::custom::TensorSpec;
use moebius_ops::Quantization;
use moebius_ops::fp8::Overflow;

pub(super) fn encoded(_x: &TensorSpec, call: &Fp8Cast, overflow: &Overflow) -> TensorSpec {
    let (problem, overflow) = (call.problem, *overflow);
    specs(Quantization::Encode { problem, overflow }).take()
}

pub(super) fn decoded(_words: &TensorSpec, call: &Fp8Cast) -> TensorSpec {
    specs(Quantization::Decode(call.problem)).take()
}
