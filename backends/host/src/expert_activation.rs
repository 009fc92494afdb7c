//! Activations of the first product, and their slopes.

use crate::vector::{exp, vectorized};
use moebius_ops::experts::Problem;
use moebius_ops::grouped_gemm::{
    Activation, CLAMPED_LIMIT, CLAMPED_SLOPE, TANH_CUBE, TANH_LIMIT, TANH_SLOPE,
};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;
use std::f32::consts::{PI, SQRT_2};

/// The step from the first product \[rows, f or 2f\] to hidden activations \[rows, f\].
#[derive(Clone, Copy)]
pub(crate) struct HiddenActivation {
    pub(crate) f: usize,
    /// Whether the second f columns multiply the activation of the first f columns.
    pub(crate) gated: bool,
    pub(crate) activation: Option<Activation>,
}

impl HiddenActivation {
    pub(crate) fn of(problem: &Problem) -> Self {
        Self {
            f: problem.inter,
            gated: problem.gated,
            activation: Some(problem.activation),
        }
    }

    /// Splits rows into gate and up columns; without gating, there is no up part.
    fn gate_and_up(self, pre: &[f32]) -> (Vec<f32>, Option<Vec<f32>>) {
        let columns = if self.gated { 2 * self.f } else { self.f };
        let rows = pre.len() / columns;
        let part = |first: usize| {
            let mut values = Vec::with_capacity(rows * self.f);
            for line in pre.chunks_exact(columns) {
                values.extend_from_slice(&line[first..first + self.f]);
            }
            values
        };
        (part(0), self.gated.then(|| part(self.f)))
    }

    /// Fills `hidden` with the hidden activations of the first product.
    pub(crate) fn activate(self, pre: &[f32], hidden: &mut [f32]) {
        match (self.activation, self.gated) {
            (Some(Activation::Relu), false) => {
                for (hidden, pre) in hidden.iter_mut().zip(pre) {
                    *hidden = relu(*pre);
                }
                return;
            }
            (Some(Activation::Silu), true) => return silu_gate(self.f, pre, hidden),
            _ => {}
        }
        let (mut act, up) = self.gate_and_up(pre);
        if let Some(activation) = self.activation {
            apply(activation, &mut act);
        }
        let Some(mut up) = up else {
            return hidden.copy_from_slice(&act);
        };
        if let Some(activation) = self.activation {
            gated(activation, &mut up);
        }
        for (hidden, (act, up)) in hidden.iter_mut().zip(act.iter().zip(&up)) {
            *hidden = act * up;
        }
    }
}

/// Prepares the up part for the product with the activation of the gate; only the clamped activation changes it.
fn gated(activation: Activation, up: &mut [f32]) {
    if activation == Activation::Clamped {
        map(up, |up| up.clamp(-CLAMPED_LIMIT, CLAMPED_LIMIT) + 1.0);
    }
}

/// Limits x from above; NaN stays NaN.
fn at_most(x: f32) -> f32 {
    if x > CLAMPED_LIMIT { CLAMPED_LIMIT } else { x }
}

/// The rows in a thread's unit of work.
const LINES: usize = 16;

/// Computes silu(gate) · up for rows \[gate, up\], each part f wide, in one pass.
fn silu_gate(f: usize, pre: &[f32], hidden: &mut [f32]) {
    let lines = hidden.par_chunks_mut(f * LINES);
    let lines = lines.zip(pre.par_chunks(2 * f * LINES));
    lines.for_each(|(hidden, pre)| vectorized(SiluGate { f, pre, hidden }));
}

struct SiluGate<'a> {
    f: usize,
    pre: &'a [f32],
    hidden: &'a mut [f32],
}

impl WithSimd for SiluGate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lines = self.pre.chunks_exact(2 * self.f);
        for (hidden, pre) in self.hidden.chunks_exact_mut(self.f).zip(lines) {
            let (gate, up) = pre.split_at(self.f);
            let (gates, gate_rest) = S::as_simd_f32s(gate);
            let (ups, up_rest) = S::as_simd_f32s(up);
            let (hidden, hidden_rest) = S::as_mut_simd_f32s(hidden);
            for ((hidden, gate), up) in hidden.iter_mut().zip(gates).zip(ups) {
                *hidden = simd.mul_f32s(silu(simd, *gate), *up);
            }
            if !hidden_rest.is_empty() {
                let [gate, up] = [gate_rest, up_rest].map(|rest| simd.partial_load_f32s(rest));
                simd.partial_store_f32s(hidden_rest, simd.mul_f32s(silu(simd, gate), up));
            }
        }
    }
}

/// Computes x · 1 / (1 + e⁻ˣ); the second factor is 0 below −88.
#[inline(always)]
fn silu<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let (one, least) = (simd.splat_f32s(1.0), simd.splat_f32s(-88.0));
    let low = simd.less_than_f32s(x, least);
    let within = simd.select_f32s(low, least, x);
    let e = exp(simd, simd.neg_f32s(within));
    let sigmoid = simd.div_f32s(one, simd.add_f32s(one, e));
    simd.mul_f32s(x, simd.select_f32s(low, simd.splat_f32s(0.0), sigmoid))
}

/// Computes max(x, 0); NaN stays NaN.
fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// Replaces every element x by act(x).
fn apply(activation: Activation, x: &mut [f32]) {
    match activation {
        Activation::Relu => map(x, |x| if x.is_nan() || x > 0.0 { x } else { 0.0 }),
        Activation::Gelu => map(x, |x| x * normal(x)),
        Activation::Silu => map(x, |x| x * sigmoid(x)),
        Activation::Mish => map(x, |x| x * softplus(x).tanh()),
        Activation::Clamped => map(x, |x| {
            let m = at_most(x);
            m / (1.0 + (-CLAMPED_SLOPE * m).exp())
        }),
        Activation::GeluTanh => map(x, |x| x * sigmoid(tanh_terms(x)[0])),
    }
}

/// Computes Φ(x) = ½ · erfc(−x / √2), which keeps its digits far below 0.
fn normal(x: f32) -> f32 {
    0.5 * libm::erfcf(-x / SQRT_2)
}

/// Computes u = 2 · √(2/π) · (x + 0.044715 · x³), the argument of the logistic function in the older form of gelu, and its slope.
fn tanh_terms(x: f32) -> [f32; 2] {
    let (slope, bend) = (TANH_SLOPE as f32, TANH_CUBE as f32 * x * x);
    [x * slope * (1.0 + bend), slope * (1.0 + 3.0 * bend)]
}

/// Computes 1 / (1 + e⁻ˣ) without an exponential that overflows.
fn sigmoid(x: f32) -> f32 {
    if x >= 0.0 {
        return 1.0 / (1.0 + (-x).exp());
    }
    let e = x.exp();
    e / (1.0 + e)
}

fn softplus(x: f32) -> f32 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn map(x: &mut [f32], f: impl Fn(f32) -> f32) {
    for x in x {
        *x = f(*x);
    }
}

/// Computes d act(x) / dx of every element.
fn slopes(activation: Activation, x: &[f32]) -> Vec<f32> {
    let mut slopes = x.to_vec();
    let x = &mut slopes[..];
    let logistic = |x: f32| 1.0 / (1.0 + (-x).exp());
    match activation {
        Activation::Relu => map(x, |x| f32::from(x > 0.0)),
        Activation::Silu => map(x, |x| logistic(x) * (1.0 + x * (1.0 - logistic(x)))),
        Activation::Mish => map(x, |x| {
            let tanh = softplus(x).tanh();
            tanh + x * logistic(x) * (1.0 - tanh * tanh)
        }),
        Activation::Clamped => map(x, |x| {
            let share = logistic(CLAMPED_SLOPE * x);
            let rise = share + CLAMPED_SLOPE * x * share * (1.0 - share);
            if x > CLAMPED_LIMIT { 0.0 } else { rise }
        }),
        Activation::Gelu => map(x, |x| {
            // gelu(x) = x·Φ(x) and gelu'(x) = Φ(x) + x·φ(x).
            let density = (-0.5 * x * x).exp() / (2.0 * PI).sqrt();
            normal(x) + x * density
        }),
        Activation::GeluTanh => map(x, |x| {
            // x is cut where the logistic function is 0 or 1, so that its slope's factors stay finite.
            let limit = TANH_LIMIT as f32;
            let x = x.clamp(-limit, limit);
            let [u, rise] = tanh_terms(x);
            let share = sigmoid(u);
            share + x * share * (1.0 - share) * rise
        }),
    }
    slopes
}

/// The results that the backward pass computes for some rows between its products.
pub(crate) struct Through<'a> {
    /// The hidden activations times the router weights, \[rows, f\].
    pub(crate) weighted: &'a mut [f32],
    /// The gradient of the first product, \[rows, f or 2f\].
    pub(crate) dpre: &'a mut [f32],
    /// ⟨gradient, hidden activations⟩ of each row.
    pub(crate) dots: &'a mut [f32],
}

impl Through<'_> {
    /// Fills the results from the first product, the gradient of the hidden activations before the router weights, and the router weights.
    pub(crate) fn activation(
        self,
        problem: &Problem,
        pre: &[f32],
        dhidden: &[f32],
        weights: &[f32],
    ) {
        let f = problem.inter;
        let lines = self.weighted.chunks_exact_mut(f);
        let lines = lines.zip(self.dpre.chunks_exact_mut(problem.columns_in()));
        let lines = lines.zip(dhidden.chunks_exact(f)).zip(weights);
        if problem.activation == Activation::Relu && !problem.gated {
            let lines = lines.zip(pre.chunks_exact(f)).zip(self.dots);
            for (((((weighted, dpre), d), weight), pre), dot) in lines {
                *dot = through_relu((weighted, dpre), d, *weight, pre);
            }
            return;
        }
        let (mut act, mut up) = HiddenActivation::of(problem).gate_and_up(pre);
        let slopes = slopes(problem.activation, &act);
        apply(problem.activation, &mut act);
        let cut = match problem.activation {
            Activation::Clamped => up.clone(),
            _ => None,
        };
        if let Some(up) = &mut up {
            gated(problem.activation, up);
        }
        for (row, (((weighted, dpre), dhidden), weight)) in lines.enumerate() {
            let of_row = row * f..(row + 1) * f;
            let line = Line {
                act: &act[of_row.clone()],
                slopes: &slopes[of_row.clone()],
                dhidden,
                weight: *weight,
            };
            self.dots[row] = match &up {
                None => line.plain(weighted, dpre),
                Some(up) => line.gated(&up[of_row.clone()], weighted, dpre.split_at_mut(f)),
            };
            if let Some(up) = &cut {
                for (dup, up) in dpre[f..].iter_mut().zip(&up[of_row]) {
                    if up.abs() > CLAMPED_LIMIT {
                        *dup = 0.0;
                    }
                }
            }
        }
    }
}

/// Computes one row with ReLU, the most common activation, in a single pass; returns ⟨d, hidden activations⟩, summed in independent partial
/// sums.
fn through_relu(
    (weighted, dpre): (&mut [f32], &mut [f32]),
    d: &[f32],
    weight: f32,
    pre: &[f32],
) -> f32 {
    let mut sums = [0.0; 16];
    let to = weighted.chunks_mut(16).zip(dpre.chunks_mut(16));
    for ((weighted, dpre), (d, pre)) in to.zip(d.chunks(16).zip(pre.chunks(16))) {
        let to = sums.iter_mut().zip(weighted).zip(dpre);
        for (((sum, weighted), dpre), (d, pre)) in to.zip(d.iter().zip(pre)) {
            let hidden = relu(*pre);
            *sum += d * hidden;
            *weighted = hidden * weight;
            *dpre = if *pre > 0.0 { d * weight } else { 0.0 };
        }
    }
    sums.iter().sum()
}

/// One row of the backward pass through an activation.
struct Line<'a> {
    act: &'a [f32],
    slopes: &'a [f32],
    dhidden: &'a [f32],
    weight: f32,
}

impl Line<'_> {
    fn plain(&self, weighted: &mut [f32], dpre: &mut [f32]) -> f32 {
        let to = weighted.iter_mut().zip(dpre);
        let from = self.act.iter().zip(self.slopes).zip(self.dhidden);
        for ((weighted, dpre), ((act, slope), d)) in to.zip(from) {
            *weighted = act * self.weight;
            *dpre = d * self.weight * slope;
        }
        dot(self.dhidden, self.act)
    }

    fn gated(&self, up: &[f32], hidden: &mut [f32], (dgate, dup): (&mut [f32], &mut [f32])) -> f32 {
        for (hidden, (act, up)) in hidden.iter_mut().zip(self.act.iter().zip(up)) {
            *hidden = act * up;
        }
        let dot = dot(self.dhidden, hidden);
        hidden.iter_mut().for_each(|hidden| *hidden *= self.weight);
        let from = self.dhidden.iter().zip(self.slopes).zip(up);
        for (dgate, ((d, slope), up)) in dgate.iter_mut().zip(from) {
            *dgate = d * self.weight * up * slope;
        }
        for (dup, (d, act)) in dup.iter_mut().zip(self.dhidden.iter().zip(self.act)) {
            *dup = d * self.weight * act;
        }
        dot
    }
}

/// Computes ⟨a, b⟩ in independent partial sums.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; 16];
    let (a, rest_a) = a.as_chunks::<16>();
    let (b, rest_b) = b.as_chunks::<16>();
    for (a, b) in a.iter().zip(b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    let rest: f32 = rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}
