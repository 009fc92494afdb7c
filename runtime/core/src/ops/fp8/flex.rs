//! FP8 casts on the host, by the codec's host functions, which the committed case files check.

use crate::ops::host::{Operands, float_tensor, floats, int_tensor, words};
use crate::ops::tensors::Value;
use burn::backend::Flex;
use moebius_ops::Quantization;
use moebius_ops::fp8;

/// The codes of values, or the values of codes.
pub(in crate::ops) fn run(operation: &Quantization, mut b: Operands) -> Vec<Value<Flex>> {
    vec![match operation {
        Quantization::Encode { problem, overflow } => {
            let values = floats(b.float("x")).into_iter();
            let code = |value| fp8::encode_host(value, problem.format(), *overflow);
            let words = fp8::pack(&values.map(code).collect::<Vec<u8>>());
            Value::Word(int_tensor(&words, &[words.len()]))
        }
        Quantization::Decode(problem) => {
            let codes = fp8::unpack(&words(b.word("codes")), problem.len());
            let value = |code: &u8| fp8::decode_host(*code, problem.format());
            let values = codes.iter().map(value).collect();
            Value::Float(float_tensor(values, &[problem.len()]))
        }
        _ => unreachable!("quantisation has a folder of its own"),
    }]
}
