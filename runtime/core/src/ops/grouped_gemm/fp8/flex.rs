//! Products with FP8 weights on Flex.

use crate::ops::host::{
    Floats, Operands, Words, cast_like, float_tensor, matrices, segments, to_f32, words,
};
use crate::ops::tensors::Value;
use burn::backend::Flex;
use burn::tensor::DType;
use moebius_host::grouped_gemm::fp8::{self as host, Weights};
use moebius_host::quantize::Scales;
use moebius_ops::grouped_gemm::Problem;
use std::borrow::Cow;

pub(in crate::ops) fn run(p: &Problem, mut b: Operands) -> Vec<Value<Flex>> {
    let x = b.float("x").to_contiguous();
    let segments = (!p.dense).then(|| segments(&mut b, 0));
    let codes = b.word("codes").to_contiguous();
    let bias = Floats::of(&mut b, "b");
    let scales = match b.take("scales") {
        Value::Float(scales) => Value::Float(to_f32(scales).to_contiguous()),
        bytes @ Value::Word(_) => bytes,
    };
    let weights = Weights {
        codes: &signed_words(&codes),
        scales: match &scales {
            Value::Float(scales) => Scales::F32(Cow::Borrowed(scales.storage())),
            Value::Word(bytes) => Scales::E8M0(words(bytes.clone()).into()),
        },
        bias: bias.maybe(),
    };
    let y = host::linear(p, segments.as_ref(), matrices(&x), &weights);
    let y = float_tensor(y, &[p.row_bound, p.n]);
    vec![Value::Float(cast_like(y, x.dtype()))]
}

/// The words of a contiguous tensor, without a copy of those that Burn's integers have here.
fn signed_words(tensor: &Words) -> Cow<'_, [i32]> {
    match tensor.dtype() {
        DType::I32 => Cow::Borrowed(tensor.storage::<i32>()),
        _ => words(tensor.clone())
            .iter()
            .map(|word| *word as i32)
            .collect(),
    }
}
