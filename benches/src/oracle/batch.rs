//! Gradients of single tokens and single columns of weights, in f64 on the host.

use moebius_ops::experts;
use moebius_ops::grouped_gemm::Activation;

/// A layer without biases, a dropless batch and the gradient of its output, copied to the host;
/// shapes as in [`experts::ReferenceInputs`].
pub(super) struct Batch {
    pub(super) problem: experts::Problem,
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

/// One hidden unit for one token: its value and its derivatives by gate and up projection.
struct Unit {
    value: f64,
    by_gate: f64,
    by_up: f64,
    /// The up projection where a relu may be on either side.
    unsure: f64,
}

/// Part of Σ|w·x| below which the sign of an f32 sum w·x says nothing.
const UNSURE: f64 = 1e-6;

impl Batch {
    /// The experts' part of the gradients of token `t`.
    pub(super) fn token(&self, t: usize) -> Token {
        let (h, f) = (self.problem.hidden, self.problem.inter);
        let top_k = self.problem.routing.top_k();
        let (x, dy) = (row(&self.x, t, h), row(&self.dy, t, h));
        let mut token = Token {
            x: vec![0.0; h],
            weights: Vec::with_capacity(top_k),
            slack: 0.0,
        };
        for slot in t * top_k..(t + 1) * top_k {
            let (e, weight) = (self.indices[slot] as usize, self.weights[slot]);
            let mut hidden_gradient = vec![0.0; f];
            for (i, dy) in dy.iter().enumerate() {
                let w_out = row(&self.w_out, e * h + i, f);
                add(&mut hidden_gradient, f64::from(*dy), w_out);
            }
            let mut dot = 0.0;
            for (c, g) in hidden_gradient.into_iter().enumerate() {
                let unit = self.unit(e, c, x);
                dot += g * unit.value;
                add(&mut token.x, weight * g * unit.by_gate, self.gate(e, c));
                if let Some(up) = self.up(e, c) {
                    add(&mut token.x, weight * g * unit.by_up, up);
                }
                if unit.unsure != 0.0 {
                    token.slack += (weight * g * unit.unsure).abs() * norm(self.gate(e, c));
                }
            }
            token.weights.push(dot);
        }
        token
    }

    /// Gradients of unit `c` of expert `e`, over all tokens.
    pub(super) fn column(&self, e: usize, c: usize) -> Column {
        let (h, f) = (self.problem.hidden, self.problem.inter);
        let top_k = self.problem.routing.top_k();
        let w_out: Vec<f32> = (0..h).map(|i| self.w_out[(e * h + i) * f + c]).collect();
        let parts = self.problem.columns_in() / f;
        let mut column = Column {
            w_in: vec![0.0; parts * h],
            w_out: vec![0.0; h],
            slack: 0.0,
        };
        let slots = self.indices.iter().enumerate();
        for (slot, _) in slots.filter(|(_, expert)| **expert as usize == e) {
            let (x, dy) = (
                row(&self.x, slot / top_k, h),
                row(&self.dy, slot / top_k, h),
            );
            let weight = self.weights[slot];
            let unit = self.unit(e, c, x);
            let g = weight * dot(&w_out, dy).0;
            let (gate, up) = column.w_in.split_at_mut(h);
            add(gate, g * unit.by_gate, x);
            add(up, g * unit.by_up, x);
            add(&mut column.w_out, weight * unit.value, dy);
            if unit.unsure != 0.0 {
                column.slack += (g * unit.unsure).abs() * norm(x);
            }
        }
        column
    }

    /// Row `c` of expert `e` that the activation is applied to.
    fn gate(&self, e: usize, c: usize) -> &[f32] {
        row(
            &self.w_in,
            e * self.problem.columns_in() + c,
            self.problem.hidden,
        )
    }

    /// Its row of the up projection.
    fn up(&self, e: usize, c: usize) -> Option<&[f32]> {
        let p = &self.problem;
        let at = e * p.columns_in() + p.inter + c;
        p.gated.then(|| row(&self.w_in, at, p.hidden))
    }

    fn unit(&self, e: usize, c: usize, x: &[f32]) -> Unit {
        let activation = self.problem.activation;
        let (gate, magnitude) = dot(self.gate(e, c), x);
        let up = self.up(e, c).map(|up| dot(up, x).0);
        let rise = up.map_or(1.0, |up| activation.reference_gated_gradient(up));
        let up = up.map_or(1.0, |up| activation.reference_gated(up));
        let unsure = activation == Activation::Relu && gate.abs() < UNSURE * magnitude;
        Unit {
            value: activation.reference(gate) * up,
            by_gate: activation.reference_gradient(gate) * up,
            by_up: activation.reference(gate) * rise,
            unsure: if unsure { up } else { 0.0 },
        }
    }
}

fn row(values: &[f32], at: usize, width: usize) -> &[f32] {
    &values[at * width..][..width]
}

/// Σ ab and Σ|ab|.
fn dot(a: &[f32], b: &[f32]) -> (f64, f64) {
    let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
    products.fold((0.0, 0.0), |(sum, all), p| (sum + p, all + p.abs()))
}

/// `to` += factor · v; nothing where `to` is empty.
pub(super) fn add(to: &mut [f64], factor: f64, v: &[f32]) {
    for (to, v) in to.iter_mut().zip(v) {
        *to += factor * f64::from(*v);
    }
}

pub(super) fn norm(v: &[f32]) -> f64 {
    v.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt()
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
