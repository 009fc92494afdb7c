//! Products with FP8 weights on the host.

use super::host::Coded;
use super::{CodedWeights, Fp8LinearCall, Fp8LinearOps};
use crate::ops::Scales;
use crate::ops::host::{cast_like, float_tensor, floats, words};
use burn::backend::Flex;
use burn::backend::TensorMetadata;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::tensor::DType;
use moebius_shaders::scaling::e8m0_value;
use std::borrow::Cow;

impl Scales<Flex> {
    /// f32s; of E8M0 bytes as many to a row as there are, padding included.
    pub(in crate::ops) fn into_values(self) -> Vec<f32> {
        match self {
            Self::F32(scales) => floats(scales),
            Self::E8M0(bytes) => words(bytes)
                .iter()
                .flat_map(|word| word.to_le_bytes().map(e8m0_value))
                .collect(),
        }
    }
}

impl Fp8LinearOps for Flex {
    fn fp8_linear(
        x: FloatTensor<Self>,
        weights: CodedWeights<Self>,
        call: Fp8LinearCall,
    ) -> FloatTensor<Self> {
        let (dtype, p) = (x.dtype(), &call.problem);
        let (codes, scales) = (weights.codes.to_contiguous(), weights.scales.into_values());
        let codes = signed_words(&codes);
        let Some(coded) = Coded::new(p, &codes, &scales) else {
            unreachable!("a call with FP8 weights has a problem with codes");
        };
        let mut y = coded.product(0, &floats(x));
        if let Some(bias) = weights.bias.into_option().map(floats) {
            for row in y.chunks_mut(p.n) {
                row.iter_mut().zip(&bias).for_each(|(y, bias)| *y += bias);
            }
        }
        cast_like(float_tensor(y, &[p.row_bound, p.n]), dtype)
    }
}

/// The words of a contiguous tensor, without a copy of those that Burn's integers have here.
pub(in crate::ops) fn signed_words(tensor: &IntTensor<Flex>) -> Cow<'_, [i32]> {
    match tensor.dtype() {
        DType::I32 => Cow::Borrowed(tensor.storage::<i32>()),
        _ => words(tensor.clone())
            .iter()
            .map(|word| *word as i32)
            .collect(),
    }
}
