//! The check of a backward pass: the gradients of some tokens, of some columns of the experts'
//! weights, and of the router where only those tokens count.

use super::batch::{Batch, Token, add, norm};
use super::{error_over, floats, indices, weights};
use burn::tensor::{DType, Tensor};
use moebius::Error;
use moebius::moe::{MoeLayer, Routing};
use moebius_ops::routing::{self, TopkGradient};

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
    /// \[T,E\], what the device routed on.
    logits: Vec<f32>,
    /// \[E,H\].
    router: Vec<f32>,
    /// Whether the device routed every token where its logits say.
    routed: bool,
    samples: Vec<(usize, Token)>,
    /// The choice for one token.
    one: routing::Problem,
}

impl GradientOracle {
    /// Computes the gradients of the sampled tokens of x \[T,H\] for dy \[T,H\].
    pub(crate) fn new(
        layer: &MoeLayer,
        (x, dy): (&Tensor<2>, &Tensor<2>),
        routing: &Routing,
    ) -> Result<Self, Error> {
        let tokens = x.dims()[0];
        let problem = layer.problem(tokens, DType::F32)?;
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
        let samples = super::spread(SAMPLES, tokens);
        Ok(Self {
            routed: indices(routing.indices.clone()) == batch.indices,
            samples: samples.map(|t| (t, batch.token(t))).collect(),
            batch,
            logits,
            router: floats(weights.router),
            one: layer.problem(1, DType::F32)?.routing,
        })
    }

    /// dy where only the sampled tokens count: so many dot products the host can afford.
    pub(crate) fn sampled_dy(&self, dy: &Tensor<2>) -> Tensor<2> {
        let [tokens, _] = dy.dims();
        let mut keep = vec![0.0f32; tokens];
        self.samples.iter().for_each(|(t, _)| keep[*t] = 1.0);
        let device = dy.device();
        let keep = Tensor::<1>::from_floats(keep.as_slice(), &device).cast(dy.dtype());
        dy.clone() * keep.reshape([tokens, 1])
    }

    /// The largest relative L2 error of a sampled token or column; infinite when a token was
    /// routed elsewhere than its logits say, or an expert without tokens has a gradient.
    pub(crate) fn error(&self, got: &Gradients) -> f64 {
        if !self.routed || !self.unused_experts_are_zero(got) {
            return f64::INFINITY;
        }
        let p = &self.batch.problem;
        let tokens = self.samples.iter().map(|(t, token)| {
            let got = floats(got.x.clone().narrow(0, *t, 1));
            let mut want = token.x.clone();
            for (e, dlogit) in self.logit_gradients(*t, token).iter().enumerate() {
                add(&mut want, *dlogit, &self.router[e * p.hidden..][..p.hidden]);
            }
            relative(&got, &want, token.slack)
        });
        let experts = self
            .samples
            .iter()
            .map(|(t, _)| self.batch.indices[t * p.routing.top_k()]);
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
        let h = self.batch.problem.hidden;
        let mut want = vec![0.0; self.router.len()];
        let mut scale = 0.0f64;
        for (t, token) in &self.samples {
            let x = &self.batch.x[t * h..][..h];
            for (e, dlogit) in self.logit_gradients(*t, token).iter().enumerate() {
                add(&mut want[e * h..][..h], *dlogit, x);
            }
            let largest = token.weights.iter().fold(0.0, |m: f64, w| m.max(w.abs()));
            scale += (largest * norm(x)).powi(2);
        }
        // A single renormalised weight is 1 whatever the logits, its gradient 0 but for rounding:
        // the size of what cancels counts as well.
        error_over(&floats(got.clone()), &want, 0.1 * scale.sqrt())
    }

    /// \[E\]: the gradient of the logits of token `t`.
    fn logit_gradients(&self, t: usize, token: &Token) -> Vec<f64> {
        let routing = &self.batch.problem.routing;
        let logits = &self.logits[t * routing.experts()..][..routing.experts()];
        let routed = routing::reference(&self.one, logits, None);
        let of = TopkGradient::Weights;
        routing::topk_backward_reference(&self.one, of, logits, None, &routed, &token.weights)
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

/// Relative L2 error of what exceeds `slack`.
fn relative(got: &[f32], want: &[f64], slack: f64) -> f64 {
    let size = want.iter().map(|w| w * w).sum::<f64>().sqrt();
    let error = error_over(got, want, 0.0);
    if slack == 0.0 || !error.is_finite() {
        return error;
    }
    (error - slack / size).max(0.0)
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "gradients_tests.rs"]
mod tests;
