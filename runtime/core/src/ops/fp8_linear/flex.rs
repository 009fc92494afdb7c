//! Products with FP8 weights on the host.

use super::host::Coded;
use crate::ops::experts::flex::apply;
use crate::ops::host::{Operands, Words, cast_like, columns_of, float_tensor, floats, words};
use crate::ops::rows::host::Segments;
use crate::ops::tensors::Value;
use burn::backend::Flex;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::DType;
use moebius_ops::grouped_gemm::{Problem, Source};
use moebius_ops::scaling::e8m0_value;
use std::borrow::Cow;

/// Scales as f32s; of E8M0 bytes as many to a row as there are, padding included.
fn values(scales: Value<Flex>) -> Vec<f32> {
    match scales {
        Value::Float(scales) => floats(scales),
        Value::Word(bytes) => words(bytes)
            .iter()
            .flat_map(|word| word.to_le_bytes().map(e8m0_value))
            .collect(),
    }
}

pub(in crate::ops) fn run(p: &Problem, mut b: Operands) -> Vec<Value<Flex>> {
    let x = b.float("x");
    let (dtype, x) = (x.dtype(), floats(x));
    let experts = Experts::new(p, &mut b);
    let y = match p.dense {
        true => experts.multiply(0, &x),
        false => experts.multiply_sorted(&x, &Segments::of(&mut b, 0)),
    };
    let y = float_tensor(y, &[p.row_bound, p.n]);
    vec![Value::Float(cast_like(y, dtype))]
}

/// The weights of a product, on the host.
struct Experts<'a> {
    problem: &'a Problem,
    panels: Words,
    scales: Vec<f32>,
    /// \[E, n or 2n\].
    bias: Option<Vec<f32>>,
}

impl<'a> Experts<'a> {
    fn new(problem: &'a Problem, b: &mut Operands) -> Self {
        Self {
            problem,
            panels: b.word("codes").to_contiguous(),
            scales: values(b.take("scales")),
            bias: b.maybe_float("b").map(floats),
        }
    }

    /// \[R, n\]: the products of all experts, and zeros for rows that no slot is sorted to.
    fn multiply_sorted(&self, x: &[f32], segments: &Segments) -> Vec<f32> {
        let p = self.problem;
        let row = |r: usize| {
            let from = match p.rows {
                Source::Tokens => segments.order[r] as usize / p.top_k,
                Source::Sorted => r,
            };
            &x[from * p.k..][..p.k]
        };
        let mut y = Vec::with_capacity(p.row_bound * p.n);
        for e in segments.occupied() {
            let rows: Vec<f32> = segments.rows(e).flat_map(row).copied().collect();
            y.extend(self.multiply(e, &rows));
        }
        y.resize(p.row_bound * p.n, 0.0);
        y
    }

    /// \[rows, n\]: the product of expert `e`, with bias, activation and gate.
    fn multiply(&self, e: usize, x: &[f32]) -> Vec<f32> {
        let p = self.problem;
        let columns = p.n * p.parts();
        let panels = signed_words(&self.panels);
        let Some(coded) = Coded::new(p, &panels, &self.scales) else {
            unreachable!("a call with FP8 weights has a problem with codes");
        };
        let mut y = coded.product(e, x);
        if let Some(bias) = &self.bias {
            for row in y.chunks_mut(columns) {
                let bias = &bias[e * columns..];
                row.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
            }
        }
        let activated = |y| match p.activation {
            Some(activation) => apply(activation, y),
            None => y,
        };
        let y = float_tensor(y, &[x.len() / p.k, columns]);
        if !p.gated {
            return floats(activated(y));
        }
        let gate = activated(columns_of(y.clone(), 0, p.n));
        floats(Flex::float_mul(gate, columns_of(y, p.n, columns)))
    }
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
