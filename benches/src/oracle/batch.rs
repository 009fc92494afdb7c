//! Gradients of single tokens and single hidden units: parts of the experts' gradients in f64.

use moebius_ops::Mismatch;
use moebius_ops::experts::{Problem, ReferenceInputs, reference_backward};
use moebius_ops::grouped_gemm::Activation;

/// A layer without biases, a dropless batch and the gradient of its output, copied to the host;
/// shapes as in [`ReferenceInputs`].
pub(super) struct Batch {
    pub(super) problem: Problem,
    pub(super) x: Vec<f32>,
    pub(super) dy: Vec<f32>,
    pub(super) indices: Vec<u32>,
    pub(super) weights: Vec<f64>,
    pub(super) w_in: Vec<f32>,
    pub(super) w_out: Vec<f32>,
}

/// What the experts contribute to the gradients of one token.
pub(super) struct Token {
    /// Of x \[H\], without what goes through the router.
    pub(super) x: Vec<f64>,
    /// Of the router weights \[K\].
    pub(super) weights: Vec<f64>,
    /// Norm of the part of x that hangs on relus too close to 0 to say on which side they are.
    pub(super) slack: f64,
}

/// Gradients of what belongs to one hidden unit of one expert.
pub(super) struct Column {
    /// Of the unit's row of `w_in`, and of its up row when gated.
    pub(super) w_in: Vec<f64>,
    /// Of the unit's column of `w_out` \[H\].
    pub(super) w_out: Vec<f64>,
    /// As [`Token::slack`], of `w_in`.
    pub(super) slack: f64,
}

/// Part of Σ|w·x| below which the sign of an f32 sum w·x says nothing.
const UNSURE: f64 = 1e-6;

impl Batch {
    /// The experts' part of the gradients of token `t`: those of a batch with no other.
    pub(super) fn token(&self, t: usize) -> Result<Token, Mismatch> {
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

    /// Gradients of unit `c` of expert `e`, over all tokens: those of experts with no other unit.
    pub(super) fn column(&self, e: usize, c: usize) -> Column {
        let p = &self.problem;
        let (h, f, parts) = (p.hidden, p.inter, p.columns_in() / p.inter);
        let experts = 0..p.routing.experts();
        let rows = experts.flat_map(|e| (0..parts).map(move |part| self.row_in(e, part * f + c)));
        let w_in = rows.collect::<Vec<_>>().concat();
        let w_out: Vec<f32> = self.w_out.iter().skip(c).step_by(f).copied().collect();
        // The slots of other experts go nowhere.
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
            let x = || row(&self.x, slot / p.routing.top_k(), h);
            self.unsure(slot, c).map_or(0.0, |d| d * norm(x()))
        });
        Column {
            slack: slack.sum(),
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

    /// dy of some tokens.
    fn dy(&self, tokens: std::ops::Range<usize>) -> Vec<f64> {
        let h = self.problem.hidden;
        super::wide(self.dy[tokens.start * h..tokens.end * h].iter().copied())
    }

    /// Row `c` of the first product's weights of expert `e`.
    fn row_in(&self, e: usize, c: usize) -> &[f32] {
        let p = &self.problem;
        row(&self.w_in, e * p.columns_in() + c, p.hidden)
    }

    /// The size of the gradient of unit `c` of a slot before its activation, if that is a relu too close to 0 to say on which side.
    fn unsure(&self, slot: usize, c: usize) -> Option<f64> {
        let p = &self.problem;
        if p.activation != Activation::Relu {
            return None;
        }
        let (e, t) = (self.indices[slot] as usize, slot / p.routing.top_k());
        let x = row(&self.x, t, p.hidden);
        let (gate, magnitude) = dot(self.row_in(e, c), x);
        if gate.abs() >= UNSURE * magnitude {
            return None;
        }
        let w_out = row(&self.w_out, e, p.hidden * p.inter).iter();
        let w_out: Vec<f32> = w_out.skip(c).step_by(p.inter).copied().collect();
        let up = p.gated.then(|| dot(self.row_in(e, p.inter + c), x).0);
        let g = self.weights[slot] * dot(&w_out, row(&self.dy, t, p.hidden)).0;
        Some((g * up.unwrap_or(1.0)).abs())
    }
}

pub(super) fn row<T>(values: &[T], at: usize, width: usize) -> &[T] {
    &values[at * width..][..width]
}

/// Σ ab and Σ|ab|.
fn dot(a: &[f32], b: &[f32]) -> (f64, f64) {
    let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
    products.fold((0.0, 0.0), |(sum, all), p| (sum + p, all + p.abs()))
}

pub(super) fn norm(v: &[f32]) -> f64 {
    v.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt()
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
