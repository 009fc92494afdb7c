//! FP8 casts on the host, by the codec's host functions, which the committed case files check.

use super::{Fp8Cast, Fp8Ops};
use crate::ops::host::{float_tensor, floats, int_tensor, words};
use burn::backend::Flex;
use burn::backend::tensor::{FloatTensor, IntTensor};
use moebius_ops::fp8;

impl Fp8Ops for Flex {
    fn fp8_encode(x: FloatTensor<Self>, call: Fp8Cast, overflow: fp8::Overflow) -> IntTensor<Self> {
        let codes: Vec<u8> = floats(x)
            .iter()
            .map(|value| fp8::encode_host(*value, call.problem.format(), overflow))
            .collect();
        let words = fp8::pack(&codes);
        int_tensor(&words, &[words.len()])
    }

    fn fp8_decode(packed: IntTensor<Self>, call: Fp8Cast) -> FloatTensor<Self> {
        let codes = fp8::unpack(&words(packed), call.problem.len());
        let values = codes
            .iter()
            .map(|code| fp8::decode_host(*code, call.problem.format()));
        float_tensor(values.collect(), &[call.problem.len()])
    }
}
