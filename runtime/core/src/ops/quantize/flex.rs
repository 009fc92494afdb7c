//! Casts and quantisation on Flex.

use crate::ops::dtype;
use crate::ops::host::{Operands, cast_like, float_tensor, floats, int_tensor, words};
use crate::ops::tensors::Value;
use burn::backend::Flex;
use moebius_host::quantize::{self as host, Scales};
use moebius_ops::quantize::{Problem, amax_host};
use moebius_ops::{Quantize, Scalar};

pub(in crate::ops) fn run(operation: &Quantize, mut b: Operands) -> Vec<Value<Flex>> {
    let result = match operation {
        Quantize::Quantize(p) => {
            let (codes, scales) = host::quantize(p, &floats(b.float("x")));
            return vec![codes_tensor(p, &codes), scales_tensor(p, scales)];
        }
        Quantize::QuantizeBy(p) => {
            let scales = stored(b.take("scales"));
            codes_tensor(p, &host::quantize_by(p, &floats(b.float("x")), scales))
        }
        Quantize::Dequantize(p) => {
            let scales = stored(b.take("scales"));
            let values = host::dequantize(p, &words(b.word("codes")), scales);
            let dtype = dtype(Scalar::Float(p.element()));
            Value::Float(cast_like(float_tensor(values, &p.shape()), dtype))
        }
        Quantize::FakeQuantize(p) | Quantize::FakeQuantizeBy(p) => {
            let x = b.float("x");
            let (dtype, x) = (x.dtype(), floats(x));
            let values = host::fake_quantize(p, x, b.maybe("scales").map(stored));
            Value::Float(cast_like(float_tensor(values, &p.shape()), dtype))
        }
        Quantize::Amax { .. } => {
            let amax = amax_host(&floats(b.float("x")));
            Value::Float(float_tensor(vec![amax], &[1]))
        }
        Quantize::Encode { problem, overflow } => {
            let words = host::encode(problem, *overflow, &floats(b.float("x")));
            Value::Word(int_tensor(&words, &[words.len()]))
        }
        Quantize::Decode(problem) => {
            let values = host::decode(problem, &words(b.word("codes")));
            Value::Float(float_tensor(values, &[problem.len()]))
        }
    };
    vec![result]
}

fn codes_tensor(problem: &Problem, codes: &[u32]) -> Value<Flex> {
    Value::Word(int_tensor(codes, &problem.words_shape()))
}

fn scales_tensor(problem: &Problem, scales: Scales<'_>) -> Value<Flex> {
    let shape = problem.scales_shape();
    match scales {
        Scales::F32(values) => Value::Float(float_tensor(values.into_owned(), &shape)),
        Scales::E8M0(words) => Value::Word(int_tensor(&words, &shape)),
    }
}

fn stored(scales: Value<Flex>) -> Scales<'static> {
    match scales {
        Value::Float(values) => Scales::F32(floats(values).into()),
        Value::Word(packed) => Scales::E8M0(words(packed).into()),
    }
}
