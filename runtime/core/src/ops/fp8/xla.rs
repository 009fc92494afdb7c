//! FP8 casts recorded for XLA.

use super::{Fp8Cast, Fp8Ops};
use crate::ops::xla::record;
use burn::backend::tensor::{FloatTensor, IntTensor};
use moebius_ops::Quantization;
use moebius_ops::fp8::Overflow;
use moebius_xla::{BackendRouter, RouterChannel};

impl<C: RouterChannel> Fp8Ops for BackendRouter<C> {
    fn fp8_encode(x: FloatTensor<Self>, call: Fp8Cast, overflow: Overflow) -> IntTensor<Self> {
        let problem = call.problem;
        record::<C>(Quantization::Encode { problem, overflow }, vec![x]).take()
    }

    fn fp8_decode(words: IntTensor<Self>, call: Fp8Cast) -> FloatTensor<Self> {
        record::<C>(Quantization::Decode(call.problem), vec![words]).take()
    }
}
