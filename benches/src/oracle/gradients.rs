//! The check of a backward pass: the gradients of some tokens, of some columns of the experts'
//! weights, and of the router where only those tokens count.

use super::batch::{Batch, Token, norm, row};
use super::{floats, indices, weights};
use burn::tensor::{DType, Tensor};
use moebius::Error;
use moebius::moe::{MoeLayer, Routing};
use moebius_ops::routing::{self, TopkGradient};
use moebius_ops::{distance, distance_over};

/// Tokens checked, and experts of which columns are.
const SAMPLES: usize = 4;
/// Columns checked of each of those experts.
const COLUMNS: usize = 2;

/// What a backward pass left, without the graph.
pub(crate) struct Gradients {
    /// \[T,H\].
    pub(crate) x: Tensor<2>,
    /// \[E,H\].
    pub(crate) router: Tensor<2>,
    /// \[E, F or 2F, H\].
    pub(crate) w_in: Tensor<3>,
    /// \[E,H,F\].
    pub(crate) w_out: Tensor<3>,
}

/// The gradients of a layer without biases for one dropless batch.
pub(crate) struct GradientOracle {
    batch: Batch,
    /// Whether the device routed every token where its logits say.
    routed: bool,
    /// The tokens that are checked.
    tokens: Vec<usize>,
    /// The gradient of x of each, and as much of it as is unsure.
    x: Vec<(Vec<f64>, f64)>,
    /// \[E,H\], of the router where only those tokens count.
    router: Vec<f64>,
    /// The size of what cancels in it.
    cancels: f64,
}

impl GradientOracle {
    /// Computes the gradients of the sampled tokens of x \[T,H\] for dy \[T,H\].
    pub(crate) fn new(
        layer: &MoeLayer,
        (x, dy): (&Tensor<2>, &Tensor<2>),
        routing: &Routing,
    ) -> Result<Self, Error> {
        let count = x.dims()[0];
        let problem = layer.problem(count, DType::F32)?;
        let weights = weights(layer)?;
        let logits = floats(routing.logits.clone());
        let routed = routing::reference(&problem.routing, &logits, None);
        let batch = Batch {
            problem,
            x: floats(x.clone()),
            dy: floats(dy.clone()),
            indices: routed.indices,
            weights: routed.weights,
            w_in: floats(weights.w_in),
            w_out: floats(weights.w_out),
        };
        let tokens: Vec<usize> = super::spread(SAMPLES, count).collect();
        let alone = tokens.iter().map(|t| batch.token(*t));
        let alone = alone.collect::<Result<Vec<Token>, _>>()?;
        let router = floats(weights.router);
        let through = through_router(&batch, (&logits, &router), &tokens, &alone)?;
        let squares = tokens.iter().zip(&alone).map(|(t, token)| {
            let largest = token.weights.iter().fold(0.0, |m: f64, w| m.max(w.abs()));
            (largest * norm(row(&batch.x, *t, problem.hidden))).powi(2)
        });
        let cancels = squares.sum::<f64>().sqrt();
        let rows = through.0.chunks(problem.hidden).zip(alone);
        let x = rows.map(|(through, token)| {
            let sum = token.x.iter().zip(through).map(|(own, more)| own + more);
            (sum.collect(), token.slack)
        });
        Ok(Self {
            routed: indices(routing.indices.clone()) == batch.indices,
            x: x.collect(),
            router: through.1,
            batch,
            tokens,
            cancels,
        })
    }

    /// dy where only the sampled tokens count: so many dot products the host can afford.
    pub(crate) fn sampled_dy(&self, dy: &Tensor<2>) -> Tensor<2> {
        super::only(dy, self.tokens.iter().copied())
    }

    /// The largest relative L2 error of a sampled token or column; infinite when a token was
    /// routed elsewhere than its logits say, or an expert without tokens has a gradient.
    pub(crate) fn error(&self, got: &Gradients) -> f64 {
        if !self.routed || !self.unused_experts_are_zero(got) {
            return f64::INFINITY;
        }
        let p = &self.batch.problem;
        let tokens = self.tokens.iter().zip(&self.x).map(|(t, (want, slack))| {
            let got = floats(got.x.clone().narrow(0, *t, 1));
            relative(&got, want, *slack)
        });
        let experts = self.tokens.iter();
        let experts = experts.map(|t| self.batch.indices[t * p.routing.top_k()]);
        let columns = experts.flat_map(|e| {
            let columns = super::spread(COLUMNS, p.inter);
            columns.map(move |c| self.column_error(got, e as usize, c))
        });
        tokens.chain(columns).fold(0.0, f64::max)
    }

    fn column_error(&self, got: &Gradients, e: usize, c: usize) -> f64 {
        let p = &self.batch.problem;
        let want = self.batch.column(e, c);
        let of_expert = got.w_in.clone().narrow(0, e, 1);
        let mut w_in = floats(of_expert.clone().narrow(1, c, 1));
        if p.gated {
            w_in.extend(floats(of_expert.narrow(1, p.inter + c, 1)));
        }
        let w_out = floats(got.w_out.clone().narrow(0, e, 1).narrow(2, c, 1));
        relative(&w_in, &want.w_in, want.slack).max(relative(&w_out, &want.w_out, 0.0))
    }

    /// Relative L2 error of the router's gradient for [`GradientOracle::sampled_dy`].
    pub(crate) fn router_error(&self, got: &Tensor<2>) -> f64 {
        // A single renormalised weight is 1 whatever the logits, its gradient 0 but for rounding:
        // the size of what cancels counts as well.
        distance_over(&floats(got.clone()), &self.router, 0.1 * self.cancels)
    }

    /// Checks one expert that no token chose, if there is one.
    fn unused_experts_are_zero(&self, got: &Gradients) -> bool {
        let mut unused = (0..self.batch.problem.routing.experts() as u32)
            .filter(|e| !self.batch.indices.contains(e));
        unused.next().is_none_or(|e| {
            let zero = |w: &Tensor<3>| {
                let values = floats(w.clone().narrow(0, e as usize, 1));
                values.iter().all(|value| *value == 0.0)
            };
            zero(&got.w_in) && zero(&got.w_out)
        })
    }
}

/// What goes through the router: of x \[S,H\] of some tokens, and of the router \[E,H\] where only they count.
fn through_router(
    batch: &Batch,
    (logits, router): (&[f32], &[f32]),
    tokens: &[usize],
    alone: &[Token],
) -> Result<(Vec<f64>, Vec<f64>), Error> {
    let p = &batch.problem;
    let routing = p.routing.with_tokens(tokens.len())?;
    let rows = |values: &[f32], width| -> Vec<f32> {
        let rows = tokens.iter().flat_map(|t| row(values, *t, width));
        rows.copied().collect()
    };
    let logits = rows(logits, routing.experts());
    let routed = routing::reference(&routing, &logits, None);
    let weights = alone.iter().flat_map(|token| &token.weights);
    let weights: Vec<f64> = weights.copied().collect();
    let of = TopkGradient::Weights;
    let d = routing::topk_backward_reference(&routing, of, &logits, None, &routed, &weights);
    let d: Vec<f32> = d.into_iter().map(|d| d as f32).collect();
    let x = rows(&batch.x, p.hidden);
    Ok(routing::logits_backward_reference(&d, &x, router, p.hidden))
}

/// Relative L2 error of what exceeds `slack`.
fn relative(got: &[f32], want: &[f64], slack: f64) -> f64 {
    let size = want.iter().map(|w| w * w).sum::<f64>().sqrt();
    let error = distance(got, want);
    if slack == 0.0 || !error.is_finite() {
        return error;
    }
    (error - slack / size).max(0.0)
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "gradients_tests.rs"]
mod tests;
