//! Shapes of the casts.

use super::Fp8Cast;
use burn::backend::fusion::custom::TensorSpec;
use burn::tensor::{DType, Shape};
use moebius_ops::fp8::{LANES_PER_WORD, Overflow};

pub(super) fn encoded(_x: &TensorSpec, call: &Fp8Cast, _overflow: &Overflow) -> TensorSpec {
    let words = call.len.div_ceil(LANES_PER_WORD);
    TensorSpec::new(Shape::from([words]), DType::I32)
}

pub(super) fn decoded(_words: &TensorSpec, call: &Fp8Cast) -> TensorSpec {
    TensorSpec::new(Shape::from([call.len]), DType::F32)
}
