//! Products with FP8 weights on the host.

use super::host::Coded;
use crate::ops::experts::flex::HiddenActivation;
use crate::ops::host::{Operands, Rows, Words, cast_like, float_tensor, floats, words};
use crate::ops::host_product::{Factor, Lines, Product, products};
use crate::ops::permute::host::Segments;
use crate::ops::tensors::Value;
use burn::backend::Flex;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, FloatDType};
use moebius_ops::grouped_gemm::{Problem, Source};
use moebius_ops::scaling::e8m0_value;
use std::borrow::Cow;

pub(in crate::ops) fn run(p: &Problem, mut b: Operands) -> Vec<Value<Flex>> {
    let x = b.float("x").to_contiguous();
    let experts = Experts::new(p, &mut b);
    let y = if p.dense {
        experts.multiply(&x, &[(0, Lines::From(0), p.row_bound)])
    } else {
        let segments = Segments::of(&mut b, 0);
        let places = match p.rows {
            Source::Tokens => segments.tokens(p.top_k),
            Source::Sorted => (0..segments.order.len() as u32).collect(),
        };
        let of_expert = |e| {
            let rows = segments.rows(e);
            (e, Lines::At(&places[rows.clone()]), rows.len())
        };
        let of_experts: Vec<_> = segments.occupied().map(of_expert).collect();
        segments.padded(experts.multiply(&x, &of_experts), p.row_bound, p.n)
    };
    vec![Value::Float(cast_like(y, x.dtype()))]
}

/// The weights of a product, on the host.
struct Experts<'a> {
    problem: &'a Problem,
    panels: Words,
    scales: Value<Flex>,
    /// \[E, n or 2n\].
    bias: Option<Vec<f32>>,
}

impl<'a> Experts<'a> {
    fn new(problem: &'a Problem, b: &mut Operands) -> Self {
        Self {
            problem,
            panels: b.word("codes").to_contiguous(),
            scales: match b.take("scales") {
                Value::Float(scales) => {
                    Value::Float(Flex::float_cast(scales, FloatDType::F32).to_contiguous())
                }
                bytes @ Value::Word(_) => bytes,
            },
            bias: b.maybe_float("b").map(floats),
        }
    }

    /// \[rows, n\]: the products of experts with so many of the rows that `lines` tells.
    fn multiply(&self, x: &Rows, of_experts: &[(usize, Lines<'_>, usize)]) -> Rows {
        let p = self.problem;
        let columns = p.n * p.parts();
        let panels = signed_words(&self.panels);
        let scales = scale_values(&self.scales);
        let Some(coded) = Coded::new(p, &panels, &scales) else {
            unreachable!("a call with FP8 weights has a problem with codes");
        };
        let of_experts = of_experts.iter().map(|&(e, lines, rows)| Product {
            left: Factor {
                lines,
                ..Factor::rows(x)
            },
            right: coded.expert(e),
            rows,
            inner: p.k,
            columns,
            bias: self
                .bias
                .as_ref()
                .map(|bias| &bias[e * columns..][..columns]),
        });
        let of_experts: Vec<_> = of_experts.collect();
        let y = products(&of_experts);
        let rows = of_experts.iter().map(|p| p.rows).sum();
        if !p.gated && p.activation.is_none() {
            return float_tensor(y, &[rows, columns]);
        }
        let rule = HiddenActivation {
            f: p.n,
            gated: p.gated,
            activation: p.activation,
        };
        let mut hidden = vec![0.0; rows * p.n];
        rule.activate(&y, &mut hidden);
        float_tensor(hidden, &[rows, p.n])
    }
}

/// Scales, without a copy of those that are f32s: it would take longer than a product with one row. Of E8M0 bytes there are as many to a row
/// as in words, padding included.
fn scale_values(scales: &Value<Flex>) -> Cow<'_, [f32]> {
    match scales {
        Value::Float(scales) => Cow::Borrowed(scales.storage()),
        Value::Word(bytes) => {
            let bytes = words(bytes.clone()).into_iter();
            bytes
                .flat_map(|word| word.to_le_bytes().map(e8m0_value))
                .collect()
        }
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
