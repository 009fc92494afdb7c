//! Products with FP8 weights on the host.

use super::host::Coded;
use super::{CodedWeights, Fp8LinearCall, Fp8LinearOps};
use crate::ops::experts::flex::apply;
use crate::ops::host::{cast_like, columns_of, float_tensor, floats, words};
use crate::ops::rows::host::Segments;
use crate::ops::{Grouping, Scales};
use burn::backend::Flex;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::tensor::DType;
use moebius_ops::grouped_gemm::{Problem, Source};
use moebius_ops::scaling::e8m0_value;
use std::borrow::Cow;

impl Scales<Flex> {
    /// f32s; of E8M0 bytes as many to a row as there are, padding included.
    fn into_values(self) -> Vec<f32> {
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
        grouping: Grouping<Self>,
        call: Fp8LinearCall,
    ) -> FloatTensor<Self> {
        let (dtype, p) = (x.dtype(), &call.problem);
        let (experts, x) = (Experts::new(p, weights), floats(x));
        let sorted = match grouping {
            Grouping::Sorted(sorted) => sorted,
            Grouping::Dense => {
                let y = float_tensor(experts.multiply(0, &x), &[p.row_bound, p.n]);
                return cast_like(y, dtype);
            }
        };
        let segments = Segments::of(sorted);
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
            y.extend(experts.multiply(e, &rows));
        }
        // Rows that no slot is sorted to.
        y.resize(p.row_bound * p.n, 0.0);
        cast_like(float_tensor(y, &[p.row_bound, p.n]), dtype)
    }
}

/// The weights of a product, on the host.
struct Experts<'a> {
    problem: &'a Problem,
    panels: IntTensor<Flex>,
    scales: Vec<f32>,
    /// \[E, n or 2n\].
    bias: Option<Vec<f32>>,
}

impl<'a> Experts<'a> {
    fn new(problem: &'a Problem, weights: CodedWeights<Flex>) -> Self {
        Self {
            problem,
            panels: weights.codes.to_contiguous(),
            scales: weights.scales.into_values(),
            bias: weights.bias.into_option().map(floats),
        }
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
fn signed_words(tensor: &IntTensor<Flex>) -> Cow<'_, [i32]> {
    match tensor.dtype() {
        DType::I32 => Cow::Borrowed(tensor.storage::<i32>()),
        _ => words(tensor.clone())
            .iter()
            .map(|word| *word as i32)
            .collect(),
    }
}
