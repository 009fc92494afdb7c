//! The check of a backward pass against f64: gradients of sampled tokens, of sampled columns of the experts' weights,
//! and of the router when only the sampled tokens contribute.

use super::{floats, indices, weights};
use burn::tensor::{DType, Tensor};
use moebius::Error;
use moebius::moe::{MoeLayer, Routing};
use moebius_ops::experts::{Problem, ReferenceInputs, reference_backward};
use moebius_ops::grouped_gemm::Activation;
use moebius_ops::routing::{self, TopkGradient};
use moebius_ops::{Mismatch, distance, distance_over};

/// Number of tokens that are checked, and of experts whose columns are checked.
const SAMPLES: usize = 4;
/// Number of columns checked per expert.
const COLUMNS: usize = 2;

/// Gradients from a backward pass, detached from the autodiff graph.
pub(crate) struct Gradients {
    /// Gradient \[T,H\] of the input.
    pub(crate) x: Tensor<2>,
    /// Gradient \[E,H\] of the router.
    pub(crate) router: Tensor<2>,
    /// Gradient \[E, F or 2F, H\] of the experts' first weights.
    pub(crate) w_in: Tensor<3>,
    /// Gradient \[E,H,F\] of the experts' second weights.
    pub(crate) w_out: Tensor<3>,
}

/// Expected gradients of a layer without biases for one dropless batch.
pub(crate) struct GradientOracle {
    batch: Batch,
    /// Whether the device routed every token as its logits say.
    routed: bool,
    /// The sampled tokens.
    tokens: Vec<usize>,
    /// Expected gradient of x for each sampled token, and the norm of its uncertain part.
    x: Vec<(Vec<f64>, f64)>,
    /// Expected gradient \[E,H\] of the router when only the sampled tokens contribute.
    router: Vec<f64>,
    /// Norm of the terms that cancel in the router's gradient.
    cancels: f64,
}

impl GradientOracle {
    /// Computes the expected gradients for the sampled tokens of x \[T,H\], given dy \[T,H\].
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

    /// dy with 0 for all but the sampled tokens, whose dot products the host can afford.
    pub(crate) fn sampled_dy(&self, dy: &Tensor<2>) -> Tensor<2> {
        super::only(dy, self.tokens.iter().copied())
    }

    /// Largest relative L2 error of a sampled token or column; infinite when a token was routed otherwise than its
    /// logits say, or an expert without tokens has a nonzero gradient.
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
        let [slack_in, slack_out] = want.slack;
        relative(&w_in, &want.w_in, slack_in).max(relative(&w_out, &want.w_out, slack_out))
    }

    /// Relative L2 error of the router's gradient for [`GradientOracle::sampled_dy`].
    pub(crate) fn router_error(&self, got: &Tensor<2>) -> f64 {
        // A single renormalised weight is 1 for any logits, so its gradient is 0 but for rounding; the norm of the
        // cancelling terms therefore counts as well.
        distance_over(&floats(got.clone()), &self.router, 0.1 * self.cancels)
    }

    /// Checks that one expert without tokens, if there is one, has zero gradients.
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

/// Gradients through the router for some tokens: of their x \[S,H\], and of the router \[E,H\] when only they
/// contribute.
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

/// Relative L2 error, less `slack`.
fn relative(got: &[f32], want: &[f64], slack: f64) -> f64 {
    let size = want.iter().map(|w| w * w).sum::<f64>().sqrt();
    let error = distance(got, want);
    if slack == 0.0 || !error.is_finite() {
        return error;
    }
    (error - slack / size).max(0.0)
}

/// A layer without biases, a dropless batch and the gradient of its output, copied to the host;
/// shapes as in [`ReferenceInputs`].
struct Batch {
    problem: Problem,
    x: Vec<f32>,
    dy: Vec<f32>,
    indices: Vec<u32>,
    weights: Vec<f64>,
    w_in: Vec<f32>,
    w_out: Vec<f32>,
}

/// The experts' contribution to the gradients of one token.
struct Token {
    /// Gradient of x \[H\], without the part through the router.
    x: Vec<f64>,
    /// Gradient of the routing weights \[K\].
    weights: Vec<f64>,
    /// Norm of the part of x's gradient that depends on relus whose inputs are too close to 0 to tell their sign.
    slack: f64,
}

/// Gradients of the weights that belong to one hidden unit of one expert.
struct Column {
    /// Gradient of the unit's row of `w_in`, then of its up row when gated.
    w_in: Vec<f64>,
    /// Gradient of the unit's column of `w_out` \[H\].
    w_out: Vec<f64>,
    /// Norms of the uncertain part of `w_in`'s gradient, as in [`Token::slack`], and of that of `w_out`'s: the rounding of the
    /// unit's values, which is all there is of them where their sums cancel for each of an expert's few tokens.
    slack: [f64; 2],
}

/// Share of Σ|w·x| by which an f32 sum w·x may be off, and below which its sign is therefore uncertain.
const UNSURE: f64 = 1e-6;

impl Batch {
    /// The experts' part of the gradients of token `t`, computed as those of a batch with this token alone.
    fn token(&self, t: usize) -> Result<Token, Mismatch> {
        let (h, k) = (self.problem.hidden, self.problem.routing.top_k());
        let routing = self.problem.routing.with_tokens(1)?;
        let problem = Problem {
            routing,
            row_bound: routing.slots(),
            ..self.problem
        };
        let inputs = ReferenceInputs {
            x: row(&self.x, t, h),
            indices: row(&self.indices, t, k),
            weights: row(&self.weights, t, k),
            ..self.inputs()
        };
        let alone = reference_backward(&problem, &inputs, &self.dy(t..t + 1));
        let slots = t * k..(t + 1) * k;
        let units = slots.flat_map(|slot| (0..problem.inter).map(move |c| (slot, c)));
        let slack = units.map(|(slot, c)| {
            let weights = || self.row_in(self.indices[slot] as usize, c);
            self.unsure(slot, c).map_or(0.0, |d| d * norm(weights()))
        });
        Ok(Token {
            slack: slack.sum(),
            x: alone.x,
            weights: alone.weights,
        })
    }

    /// Gradients of unit `c` of expert `e` over all tokens, computed as those of experts with this unit alone.
    fn column(&self, e: usize, c: usize) -> Column {
        let p = &self.problem;
        let (h, f, parts) = (p.hidden, p.inter, p.columns_in() / p.inter);
        let experts = 0..p.routing.experts();
        let rows = experts.flat_map(|e| (0..parts).map(move |part| self.row_in(e, part * f + c)));
        let w_in = rows.collect::<Vec<_>>().concat();
        let w_out: Vec<f32> = self.w_out.iter().skip(c).step_by(f).copied().collect();
        // Slots of other experts are routed to an expert that doesn't exist.
        let here = |index: &u32| *index as usize == e;
        let nowhere = p.routing.experts() as u32;
        let own = |index| if here(index) { *index } else { nowhere };
        let indices: Vec<u32> = self.indices.iter().map(own).collect();
        let inputs = ReferenceInputs {
            indices: &indices,
            w_in: &w_in,
            w_out: &w_out,
            ..self.inputs()
        };
        let dy = self.dy(0..p.routing.tokens());
        let alone = reference_backward(&Problem { inter: 1, ..*p }, &inputs, &dy);
        let slots = (0..indices.len()).filter(|slot| here(&indices[*slot]));
        let slack = slots.map(|slot| {
            let [x, dy] = [&self.x, &self.dy].map(|of| row(of, slot / p.routing.top_k(), h));
            let sign = self.unsure(slot, c).map_or(0.0, |d| d * norm(x));
            [sign, self.rounding(slot, c) * norm(dy)]
        });
        Column {
            slack: slack.fold([0.0; 2], |sum, of| [sum[0] + of[0], sum[1] + of[1]]),
            w_in: row(&alone.w_in, e, parts * h).to_vec(),
            w_out: row(&alone.w_out, e, h).to_vec(),
        }
    }

    fn inputs(&self) -> ReferenceInputs<'_> {
        ReferenceInputs {
            x: &self.x,
            indices: &self.indices,
            weights: &self.weights,
            w_in: &self.w_in,
            b_in: None,
            w_out: &self.w_out,
            b_out: None,
        }
    }

    /// Largest rounding of the value of unit `c` for a slot, times the slot's weight: that of its sums, since no activation is
    /// much steeper than 1.
    fn rounding(&self, slot: usize, c: usize) -> f64 {
        let [(gate, magnitude), (up, of_up)] = self.sums(slot, c);
        UNSURE * (magnitude * up.abs() + gate.abs() * of_up) * self.weights[slot].abs()
    }

    /// The sums w·x of unit `c` for a slot and those of their magnitudes: of its row, and of its up row, or 1 in place of one.
    fn sums(&self, slot: usize, c: usize) -> [(f64, f64); 2] {
        let p = &self.problem;
        let x = row(&self.x, slot / p.routing.top_k(), p.hidden);
        let of = |unit| dot(self.row_in(self.indices[slot] as usize, unit), x);
        let up = if p.gated { of(p.inter + c) } else { (1.0, 0.0) };
        [of(c), up]
    }

    /// dy of a range of tokens.
    fn dy(&self, tokens: std::ops::Range<usize>) -> Vec<f64> {
        let h = self.problem.hidden;
        super::wide(self.dy[tokens.start * h..tokens.end * h].iter().copied())
    }

    /// Row `c` of expert `e` in the weights of the first product.
    fn row_in(&self, e: usize, c: usize) -> &[f32] {
        let p = &self.problem;
        row(&self.w_in, e * p.columns_in() + c, p.hidden)
    }

    /// Absolute gradient of unit `c` of a slot before its activation, if that is a relu whose input is too close to 0 to tell its
    /// sign.
    fn unsure(&self, slot: usize, c: usize) -> Option<f64> {
        let p = &self.problem;
        if p.activation != Activation::Relu {
            return None;
        }
        let (e, t) = (self.indices[slot] as usize, slot / p.routing.top_k());
        let [(gate, magnitude), (up, _)] = self.sums(slot, c);
        if gate.abs() >= UNSURE * magnitude {
            return None;
        }
        let w_out = row(&self.w_out, e, p.hidden * p.inter).iter();
        let w_out: Vec<f32> = w_out.skip(c).step_by(p.inter).copied().collect();
        let g = self.weights[slot] * dot(&w_out, row(&self.dy, t, p.hidden)).0;
        Some((g * up).abs())
    }
}

fn row<T>(values: &[T], at: usize, width: usize) -> &[T] {
    &values[at * width..][..width]
}

/// Dot product Σ ab and the sum Σ|ab| of its magnitudes.
fn dot(a: &[f32], b: &[f32]) -> (f64, f64) {
    let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
    products.fold((0.0, 0.0), |(sum, all), p| (sum + p, all + p.abs()))
}

fn norm(v: &[f32]) -> f64 {
    v.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt()
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod batch_tests;
#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "gradients_tests.rs"]
mod tests;
