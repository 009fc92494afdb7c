//! The experts on Flex: a loop over the experts that have slots, on Burn's matmul.

use super::{
    ExpertGradients, ExpertWeights, ExpertsCall, ExpertsGradients, ExpertsOps, Forward, Needs,
    Trained,
};
use crate::ops::host::{
    add_bias, cast_like, columns_of, expert, expert_row, float_tensor, floats, matmul,
    matmul_transposed, rows_of, select_rows, to_f32,
};
use crate::ops::rows::host::{Segments, combined, gathered, row_dots};
use crate::ops::{Maybe, Sorted};
use burn::backend::ops::{ActivationOps, FloatTensorOps};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};
use moebius_shaders::grouped_gemm::Activation;
use moebius_shaders::moe::{Problem, Stage};

type Rows = FloatTensor<Flex>;

impl ExpertsOps for Flex {
    fn moe_experts(
        x: Rows,
        weights: Rows,
        sorted: Sorted<Self>,
        experts: ExpertWeights<Self>,
        call: ExpertsCall,
    ) -> Rows {
        forward(x, weights, &Segments::of(sorted), &experts, &call).0
    }
}

impl ExpertsGradients for Flex {
    fn moe_experts_keeping(
        x: Rows,
        weights: Rows,
        sorted: Sorted<Self>,
        experts: ExpertWeights<Self>,
        call: ExpertsCall,
    ) -> Trained<Self> {
        let dtype = x.dtype();
        let segments = Segments::of(sorted);
        let (y, pre) = forward(x, weights, &segments, &experts, &call);
        let pre = segments.padded(pre, call.problem.row_bound, call.problem.columns_in());
        Trained {
            y,
            pre: cast_like(pre, dtype),
        }
    }

    fn moe_experts_backward(
        dy: Rows,
        forward: Forward<Self>,
        needs: Needs,
        call: ExpertsCall,
    ) -> ExpertGradients<Self> {
        let dtype = forward.x.dtype();
        let segments = Segments::of(forward.sorted);
        let problem = &call.problem;
        let top_k = problem.routing.top_k();
        let x = to_f32(forward.x);
        let pre = match forward.pre {
            Maybe::Present(pre) => segments.unpadded(to_f32(pre)),
            Maybe::Absent => first_product(&x, &segments, &forward.experts, top_k),
        };
        let pass = Pass {
            problem,
            segments: &segments,
            experts: &forward.experts,
            dy: gathered(&to_f32(dy), &segments, top_k),
            weights: segments.of_rows(&floats(forward.weights)),
            x,
        };
        pass.run(pre, needs, dtype)
    }
}

/// x · W_inᵀ + b_in of every sorted row, expert by expert.
fn first_product(
    x: &Rows,
    segments: &Segments,
    experts: &ExpertWeights<Flex>,
    top_k: usize,
) -> Rows {
    let b_in = experts.b_in.clone().into_option();
    segments.each(experts.w_in.shape()[1], |e, rows| {
        let tokens: Vec<u32> = segments.order[rows]
            .iter()
            .map(|s| s / top_k as u32)
            .collect();
        let rows = to_f32(select_rows(x.clone(), &tokens));
        let product = matmul_transposed(rows, expert(experts.w_in.clone(), e));
        add_bias(product, expert_row(&b_in, e))
    })
}

/// y, and the first product of the sorted rows.
fn forward(
    x: Rows,
    weights: Rows,
    segments: &Segments,
    experts: &ExpertWeights<Flex>,
    call: &ExpertsCall,
) -> (Rows, Rows) {
    let problem = &call.problem;
    let (dtype, top_k) = (x.dtype(), problem.routing.top_k());
    let done = |stage| call.clock.iter().for_each(|clock| clock.mark(stage));
    let pre = first_product(&x, segments, experts, top_k);
    let hidden = activated(problem, pre.clone());
    done(Stage::Gemm1);
    let b_out = experts.b_out.clone().into_option();
    let rows = segments.each(problem.hidden, |e, rows| {
        let rows = rows_of(hidden.clone(), rows.start, rows.end);
        let product = matmul_transposed(rows, expert(experts.w_out.clone(), e));
        add_bias(product, expert_row(&b_out, e))
    });
    done(Stage::Gemm2);
    let y = combined(rows, Some(&floats(weights)), segments, top_k);
    done(Stage::Combine);
    (cast_like(y, dtype), pre)
}

/// Gate and up columns of the first product; the gate alone without gating.
fn parts(problem: &Problem, pre: &Rows) -> (Rows, Option<Rows>) {
    if !problem.gated {
        return (pre.clone(), None);
    }
    let f = problem.inter;
    let gate = columns_of(pre.clone(), 0, f);
    (gate, Some(columns_of(pre.clone(), f, 2 * f)))
}

/// The activation, and the product with the up projection when gated.
fn activated(problem: &Problem, pre: Rows) -> Rows {
    let (gate, up) = parts(problem, &pre);
    let act = match problem.activation {
        Activation::Relu => Flex::relu(gate),
        Activation::Gelu => Flex::gelu(gate),
        Activation::Silu => Flex::float_mul(gate.clone(), Flex::sigmoid(gate)),
        Activation::Mish => map(&gate, |x| x * softplus(x).tanh()),
    };
    match up {
        Some(up) => Flex::float_mul(act, up),
        None => act,
    }
}

fn softplus(x: f32) -> f32 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn map(x: &Rows, f: impl Fn(f32) -> f32) -> Rows {
    let shape = x.shape();
    let values = floats(x.clone()).into_iter().map(f).collect();
    float_tensor(values, &[shape[0], shape[1]])
}

/// d act(x) / dx of every element.
fn slopes(activation: Activation, x: &Rows) -> Rows {
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    match activation {
        Activation::Relu => map(x, |x| f32::from(x > 0.0)),
        Activation::Silu => map(x, |x| sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x)))),
        Activation::Mish => map(x, |x| {
            let tanh = softplus(x).tanh();
            tanh + x * sigmoid(x) * (1.0 - tanh * tanh)
        }),
        Activation::Gelu => {
            // gelu(x) = x·Φ(x) and gelu'(x) = Φ(x) + x·φ(x), with Φ(x) ≈ 1/2 + φ(0)·x near 0.
            let density = |x: f32| (-0.5 * x * x).exp() / (2.0 * std::f32::consts::PI).sqrt();
            let slope = |(x, gelu): (f32, f32)| {
                let phi = if x.abs() < 1e-3 {
                    0.5 + x * density(0.0)
                } else {
                    gelu / x
                };
                phi + x * density(x)
            };
            let gelu = floats(Flex::gelu(x.clone()));
            let values = floats(x.clone()).into_iter().zip(gelu).map(slope);
            let shape = x.shape();
            float_tensor(values.collect(), &[shape[0], shape[1]])
        }
    }
}

/// One backward pass, its inputs in f32 and sorted order.
struct Pass<'a> {
    problem: &'a Problem,
    segments: &'a Segments,
    experts: &'a ExpertWeights<Flex>,
    dy: Rows,
    /// Router weights as a column.
    weights: Rows,
    x: Rows,
}

impl Pass<'_> {
    fn run(self, pre: Rows, needs: Needs, dtype: burn::tensor::DType) -> ExpertGradients<Flex> {
        let (problem, segments) = (self.problem, self.segments);
        let top_k = problem.routing.top_k();
        let hidden = activated(problem, pre.clone());
        // Of the hidden activations, before the router weight.
        let dhidden = segments.each(problem.inter, |e, rows| {
            let dy = rows_of(self.dy.clone(), rows.start, rows.end);
            matmul(dy, expert(self.experts.w_out.clone(), e))
        });
        // ⟨dy, W h + b⟩ = ⟨Wᵀ dy, h⟩ + ⟨dy, b⟩: the answers themselves aren't needed.
        let mut dots = row_dots(&dhidden, &hidden);
        if let Maybe::Present(b_out) = &self.experts.b_out {
            let biases = segments.repeated(&to_f32(b_out.clone()));
            let more = row_dots(&self.dy, &biases);
            dots.iter_mut()
                .zip(more)
                .for_each(|(dot, more)| *dot += more);
        }
        let weights = segments.to_slots(&dots, top_k);
        let dpre = self.through_activation(&pre, Flex::float_mul(dhidden, self.weights.clone()));
        let weighted = Flex::float_mul(self.dy.clone(), self.weights.clone());
        let x_rows = gathered(&self.x, segments, top_k);
        let (mut w_in, mut w_out, mut b_in, mut b_out) = (None, None, None, None);
        if needs.experts {
            w_in = Some(cast_like(segments.outer(&dpre, &x_rows), dtype));
            w_out = Some(cast_like(segments.outer(&weighted, &hidden), dtype));
            if problem.bias {
                b_in = Some(cast_like(segments.sums(&dpre), dtype));
                b_out = Some(cast_like(segments.sums(&weighted), dtype));
            }
        }
        let x = needs.x.then(|| {
            let rows = segments.each(problem.hidden, |e, rows| {
                let dpre = rows_of(dpre.clone(), rows.start, rows.end);
                matmul(dpre, expert(self.experts.w_in.clone(), e))
            });
            cast_like(combined(rows, None, segments, top_k), dtype)
        });
        ExpertGradients {
            x: x.into(),
            weights,
            w_in: w_in.into(),
            w_out: w_out.into(),
            b_in: b_in.into(),
            b_out: b_out.into(),
        }
    }

    /// The first product's gradient from the hidden activations'.
    fn through_activation(&self, pre: &Rows, dhidden: Rows) -> Rows {
        let (gate, up) = parts(self.problem, pre);
        let slope = slopes(self.problem.activation, &gate);
        match up {
            None => Flex::float_mul(dhidden, slope),
            Some(up) => {
                let plain = Problem {
                    gated: false,
                    ..*self.problem
                };
                let dup = Flex::float_mul(dhidden.clone(), activated(&plain, gate));
                let dgate = Flex::float_mul(Flex::float_mul(dhidden, up), slope);
                Flex::float_cat(vec![dgate, dup], 1)
            }
        }
    }
}
