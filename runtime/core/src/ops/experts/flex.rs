//! The experts on Flex: a loop over the experts that have slots, on Burn's matmul.

use super::StageClock;
use crate::ops::host::{
    Operands, Rows, add_bias, cast_like, columns_of, expert, expert_row, float_tensor, floats,
    matmul_transposed, select_rows, to_f32,
};
use crate::ops::rows::host::{Segments, combined, gathered, joined, row_dots};
use crate::ops::tensors::Value;
use burn::backend::ops::{ActivationOps, FloatTensorOps};
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::DType;
use moebius_ops::grouped_gemm::Activation;
use moebius_ops::moe::Problem;
use moebius_shaders::moe::Stage;

struct Experts {
    w_in: Rows,
    w_out: Rows,
    b_in: Option<Rows>,
    b_out: Option<Rows>,
}

impl Experts {
    fn of(b: &mut Operands) -> Self {
        Self {
            w_in: b.float("w_in"),
            w_out: b.float("w_out"),
            b_in: b.maybe_float("b_in"),
            b_out: b.maybe_float("b_out"),
        }
    }
}

/// y, and the first product before its activation where it is kept.
pub(in crate::ops) fn run(
    problem: &Problem,
    keep: bool,
    clock: Option<&StageClock>,
    mut b: Operands,
) -> Vec<Value<Flex>> {
    let (segments, experts) = (Segments::of(&mut b, 0), Experts::of(&mut b));
    let (x, weights) = (b.float("x"), b.float("weights"));
    let dtype = x.dtype();
    let pieces = first_product(&to_f32(x), &segments, &experts, problem);
    let pre = keep.then(|| {
        let columns = problem.columns_in();
        let pre = joined(pieces.clone(), columns);
        cast_like(segments.padded(pre, problem.row_bound, columns), dtype)
    });
    let done = |stage| clock.iter().for_each(|clock| clock.mark(stage));
    let y = second_product(pieces, &weights, &segments, (&experts, problem), done);
    let y = cast_like(y, dtype);
    [y].into_iter().chain(pre).map(Value::Float).collect()
}

/// Gradients of x where it is needed, the router weights, and of weights and biases where they are.
pub(in crate::ops) fn gradients(
    problem: &Problem,
    needs: [bool; 2],
    mut b: Operands,
) -> Vec<Value<Flex>> {
    let (segments, experts) = (Segments::of(&mut b, 0), Experts::of(&mut b));
    let x = b.float("x");
    let dtype = x.dtype();
    let x = to_f32(x);
    let pre = match b.maybe_float("pre") {
        Some(pre) => segments.unpadded(to_f32(pre)),
        None => {
            let rows = gathered(&x, &segments, problem.routing.top_k());
            segments.products(&rows, &experts.w_in, &experts.b_in)
        }
    };
    let pass = Pass {
        problem,
        segments: &segments,
        experts: &experts,
        dy: gathered(&to_f32(b.float("dy")), &segments, problem.routing.top_k()),
        weights: segments.of_rows(&floats(b.float("weights"))),
        x,
    };
    let gradients = pass.run(pre, needs, dtype).into_iter();
    gradients.map(Value::Float).collect()
}

/// x · W_inᵀ + b_in of the sorted rows of every expert that has any.
fn first_product(x: &Rows, segments: &Segments, experts: &Experts, problem: &Problem) -> Vec<Rows> {
    let top_k = problem.routing.top_k() as u32;
    let product = |e: usize| {
        let slots = &segments.order[segments.rows(e)];
        let tokens: Vec<u32> = slots.iter().map(|s| s / top_k).collect();
        let rows = select_rows(x.clone(), &tokens);
        let product = matmul_transposed(rows, expert(experts.w_in.clone(), e));
        add_bias(product, expert_row(&experts.b_in, e))
    };
    segments.occupied().map(product).collect()
}

/// y in f32 from the first product, with router weights \[T,K\].
fn second_product(
    pre: Vec<Rows>,
    weights: &Rows,
    segments: &Segments,
    (experts, problem): (&Experts, &Problem),
    done: impl Fn(Stage),
) -> Rows {
    // Each alone, so that it is changed in place.
    let hidden: Vec<Rows> = pre.into_iter().map(|pre| activated(problem, pre)).collect();
    done(Stage::Gemm1);
    let product = |(e, hidden)| {
        let product = matmul_transposed(hidden, expert(experts.w_out.clone(), e));
        add_bias(product, expert_row(&experts.b_out, e))
    };
    let rows: Vec<Rows> = segments.occupied().zip(hidden).map(product).collect();
    done(Stage::Gemm2);
    let shape = [problem.routing.top_k(), problem.hidden];
    let y = combined(&rows, Some(&floats(weights.clone())), segments, shape);
    done(Stage::Combine);
    y
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
    let (gate, up) = match problem.gated {
        true => parts(problem, &pre),
        false => (pre, None),
    };
    let act = apply(problem.activation, gate);
    match up {
        Some(up) => Flex::float_mul(act, up),
        None => act,
    }
}

/// act(x) of every element.
pub(in crate::ops) fn apply(activation: Activation, x: Rows) -> Rows {
    match activation {
        Activation::Relu => Flex::relu(x),
        Activation::Gelu => Flex::gelu(x),
        Activation::Silu => Flex::float_mul(x.clone(), Flex::sigmoid(x)),
        Activation::Mish => map(&x, |x| x * softplus(x).tanh()),
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
    experts: &'a Experts,
    dy: Rows,
    /// Router weights as a column.
    weights: Rows,
    x: Rows,
}

impl Pass<'_> {
    fn run(self, pre: Rows, [of_x, of_experts]: [bool; 2], dtype: DType) -> Vec<Rows> {
        let (problem, segments) = (self.problem, self.segments);
        let top_k = problem.routing.top_k();
        let hidden = activated(problem, pre.clone());
        // Of the hidden activations, before the router weight.
        let dhidden = segments.products_back(&self.dy, &self.experts.w_out);
        // ⟨dy, W h + b⟩ = ⟨Wᵀ dy, h⟩ + ⟨dy, b⟩: the answers themselves aren't needed.
        let mut dots = row_dots(&dhidden, &hidden);
        if let Some(b_out) = &self.experts.b_out {
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
        let mut of_weights = Vec::new();
        if of_experts {
            of_weights.push(segments.outer(&dpre, &x_rows));
            of_weights.push(segments.outer(&weighted, &hidden));
            if problem.bias {
                of_weights.push(segments.sums(&dpre));
                of_weights.push(segments.sums(&weighted));
            }
        }
        let of_weights = of_weights.into_iter().map(|sum| cast_like(sum, dtype));
        let x = of_x.then(|| {
            let rows = segments.products_back(&dpre, &self.experts.w_in);
            let shape = [top_k, problem.hidden];
            cast_like(combined(&[rows], None, segments, shape), dtype)
        });
        x.into_iter().chain([weights]).chain(of_weights).collect()
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
