//! The feed-forward experts of a mixture-of-experts layer.
//!
//! y_t = Σ_k w_tk · expert_{e(t,k)}(x_t), expert(x) = W_out · act(W_in · x + b_in) + b_out, gated:
//! W_out · (act(G x) ∘ (U x)).
//!
//! A dense network ([`Problem::dense`]) is one expert of all tokens: y_t = expert(x_t), and nothing is sorted.

use crate::element::Element;
use crate::error::Mismatch;
use crate::grouped_gemm::{self, Activation, Source};
use crate::permute::{self, Capacity, RowsProblem, capacity, combine};
use crate::routing;
use serde::{Deserialize, Serialize};

/// The description of a layer's experts and of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// The routing: tokens, experts, and choices per token.
    pub routing: routing::Problem,
    /// Values of a token H.
    pub hidden: usize,
    /// Hidden values of an expert F.
    pub inter: usize,
    /// Type of x, the weights and y.
    pub element: Element,
    /// Whether the first product has a gate and an up projection instead of one projection.
    pub gated: bool,
    /// The activation between the two products.
    pub activation: Activation,
    /// Whether the experts have biases.
    pub bias: bool,
    /// The largest number of slots of an expert; `None` never drops a slot.
    #[serde(with = "crate::permute::capacity::exact")]
    pub capacity: Option<Capacity>,
    /// The largest number R of slots that reach an expert; S unless `capacity` limits it.
    pub row_bound: usize,
    /// Whether one expert gets all tokens in order, with router weights of 1 and without a sort.
    pub dense: bool,
}

/// The values that a forward keeps for its backward pass, beside its inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// The first product before its activation: F or 2F elements per slot.
    #[default]
    FirstProduct,
    /// Nothing: the backward pass computes the first product again.
    Inputs,
}

impl Problem {
    /// Ungated relu experts in f32, without biases and without a capacity.
    pub fn new(routing: routing::Problem, hidden: usize, inter: usize) -> Self {
        Self {
            routing,
            hidden,
            inter,
            element: Element::F32,
            gated: false,
            activation: Activation::Relu,
            bias: false,
            capacity: None,
            row_bound: routing.slots(),
            dense: false,
        }
    }

    /// Columns of the first product: F, or 2F when gated.
    pub fn columns_in(&self) -> usize {
        if self.gated {
            self.inter.saturating_mul(2)
        } else {
            self.inter
        }
    }

    /// A product of the sorted rows: \[.., `k`\] · \[`n`, `k`\]ᵀ for each expert.
    ///
    /// # Errors
    /// [`Mismatch`] when a size is 0 or an index would not fit 31 bits.
    pub fn product(&self, n: usize, k: usize) -> Result<grouped_gemm::Problem, Mismatch> {
        let r = &self.routing;
        let problem = grouped_gemm::Problem::new(r.slots(), r.experts(), r.top_k(), n, k)?;
        Ok(grouped_gemm::Problem {
            element: self.element,
            row_bound: self.row_bound,
            rows: Source::Sorted,
            dense: self.dense,
            ..problem
        })
    }

    /// How a product of the experts' rows finds them in a buffer with one row per token.
    pub fn token_rows(&self) -> Source {
        if self.dense {
            Source::Sorted
        } else {
            Source::Tokens
        }
    }

    /// The first product, including the activation.
    ///
    /// # Errors
    /// [`Mismatch`] under the conditions of [`Problem::check`].
    pub fn up(&self) -> Result<grouped_gemm::Problem, Mismatch> {
        Ok(grouped_gemm::Problem {
            rows: self.token_rows(),
            gated: self.gated,
            activation: Some(self.activation),
            bias: self.bias,
            ..self.product(self.inter, self.hidden)?
        })
    }

    /// The second product.
    ///
    /// # Errors
    /// [`Mismatch`] under the conditions of [`Problem::check`].
    pub fn down(&self) -> Result<grouped_gemm::Problem, Mismatch> {
        Ok(grouped_gemm::Problem {
            bias: self.bias,
            ..self.product(self.hidden, self.inter)?
        })
    }

    /// The rows of the second product's output.
    ///
    /// # Errors
    /// [`Mismatch`] under the conditions of [`Problem::check`].
    pub fn output_rows(&self) -> Result<RowsProblem, Mismatch> {
        RowsProblem::new(&self.routing, self.row_bound, self.hidden, self.element)
    }

    /// Checks the sizes of both products.
    ///
    /// # Errors
    /// [`Mismatch`] when a size is 0 or an index would not fit 31 bits, and for a dense network with several experts, choices, or
    /// rows per token.
    pub fn check(&self) -> Result<(), Mismatch> {
        if self.dense {
            let r = &self.routing;
            Mismatch::check("experts of a dense network", 1, r.experts())?;
            Mismatch::check("choices in a dense network", 1, r.top_k())?;
            Mismatch::check("rows of a dense network", r.slots(), self.row_bound)?;
        }
        self.up()?;
        self.down().map(drop)
    }

    /// Floating-point operations of both products over the largest number of rows that a routing can produce.
    pub fn flops(&self) -> u64 {
        let products = if self.gated { 3 } else { 2 };
        2 * products * (self.row_bound * self.hidden) as u64 * self.inter as u64
    }

    /// The bytes that a forward must hold at least: weights, x, y, hidden activations and the experts' outputs.
    pub fn floor_bytes(&self) -> u64 {
        let (h, f, e) = (self.hidden, self.inter, self.routing.experts());
        let projections = if self.gated { 3 } else { 2 };
        let weights = e * projections * h * f + e * h;
        let activations = 2 * self.routing.tokens() * h + self.row_bound * (f + h);
        ((weights + activations) * self.element.bytes()) as u64
    }
}

/// The inputs of [`reference()`]: host copies of the buffers of the same names.
pub struct ReferenceInputs<'a> {
    /// Tokens \[T,H\].
    pub x: &'a [f32],
    /// Chosen expert of each slot \[T,K\].
    pub indices: &'a [u32],
    /// Router weights \[T,K\].
    pub weights: &'a [f64],
    /// Weights of the first product \[E, F or 2F, H\].
    pub w_in: &'a [f32],
    /// Bias of the first product \[E, F or 2F\].
    pub b_in: Option<&'a [f32]>,
    /// Weights of the second product \[E,H,F\].
    pub w_out: &'a [f32],
    /// Bias of the second product \[E,H\].
    pub b_out: Option<&'a [f32]>,
}

/// The oracle of the forward pass, in f64: y \[T,H\] and the number of slots that reached no expert.
///
/// # Errors
/// [`Mismatch`] when the problem's sizes are wrong.
pub fn reference(
    problem: &Problem,
    inputs: &ReferenceInputs,
) -> Result<(Vec<f64>, usize), Mismatch> {
    let r = &problem.routing;
    let keys = kept(problem, inputs);
    let sorted = permute::reference(&keys, r.experts());
    let x: Vec<f64> = inputs.x.iter().map(|x| f64::from(*x)).collect();
    let hidden = grouped_gemm::reference(&problem.up()?, &sorted, &x, inputs.w_in, inputs.b_in);
    let down = problem.down()?;
    let rows = grouped_gemm::reference(&down, &sorted, &hidden, inputs.w_out, inputs.b_out);
    let shape = problem.output_rows()?;
    let y = combine::reference(&shape, &sorted.positions, Some(inputs.weights), &rows)?;
    let dropped = keys.iter().filter(|key| **key as usize >= r.experts());
    Ok((y, dropped.count()))
}

/// The expert of every slot; E for a slot that the capacity dropped.
fn kept(problem: &Problem, inputs: &ReferenceInputs) -> Vec<u32> {
    let r = &problem.routing;
    let Some(capacity) = problem.capacity else {
        return inputs.indices.to_vec();
    };
    let weights: Vec<f32> = inputs.weights.iter().map(|w| *w as f32).collect();
    let limit = capacity.slots_per_expert(r.slots(), r.experts()) as u32;
    capacity::reference(inputs.indices, &weights, &vec![limit; r.experts()])
}

/// The results of [`reference_backward()`], each in the shape of the tensor whose gradient it is.
#[derive(Clone, Debug, Default)]
pub struct ReferenceGradients {
    /// Gradient of the tokens \[T,H\].
    pub x: Vec<f64>,
    /// Gradient of the router weights \[T,K\].
    pub weights: Vec<f64>,
    /// Gradient of the first product's weights \[E, F or 2F, H\].
    pub w_in: Vec<f64>,
    /// Gradient of the second product's weights \[E,H,F\].
    pub w_out: Vec<f64>,
    /// Gradient of the first product's bias \[E, F or 2F\], computed even without a bias.
    pub b_in: Vec<f64>,
    /// Gradient of the second product's bias \[E,H\], computed even without a bias.
    pub b_out: Vec<f64>,
}

/// The oracle of the gradients for dy \[T,H\], slot by slot, in f64.
pub fn reference_backward(
    problem: &Problem,
    inputs: &ReferenceInputs,
    dy: &[f64],
) -> ReferenceGradients {
    let (h, columns) = (problem.hidden, problem.columns_in());
    let r = &problem.routing;
    let experts = r.experts();
    let mut gradients = ReferenceGradients {
        x: vec![0.0; r.tokens() * h],
        weights: vec![0.0; r.slots()],
        w_in: vec![0.0; experts * columns * h],
        w_out: vec![0.0; experts * h * problem.inter],
        b_in: vec![0.0; experts * columns],
        b_out: vec![0.0; experts * h],
    };
    for (slot, expert) in kept(problem, inputs).iter().enumerate() {
        if (*expert as usize) < experts {
            let dy = &dy[slot / r.top_k() * h..][..h];
            let e = *expert as usize;
            add_slot(problem, inputs, slot, e, dy, &mut gradients);
        }
    }
    gradients
}

fn add_slot(
    problem: &Problem,
    inputs: &ReferenceInputs,
    slot: usize,
    e: usize,
    dy: &[f64],
    gradients: &mut ReferenceGradients,
) {
    let (h, f, columns) = (problem.hidden, problem.inter, problem.columns_in());
    let token = slot / problem.routing.top_k();
    let weight = inputs.weights[slot];
    let x: Vec<f64> = inputs.x[token * h..][..h]
        .iter()
        .map(|x| f64::from(*x))
        .collect();
    let w_in = &inputs.w_in[e * columns * h..][..columns * h];
    let w_out = &inputs.w_out[e * h * f..][..h * f];
    let bias = |b: Option<&[f32]>, at: usize| b.map_or(0.0, |b| f64::from(b[at]));
    let pre: Vec<f64> = (0..columns)
        .map(|c| {
            let row = w_in[c * h..][..h].iter().zip(&x);
            row.map(|(w, x)| f64::from(*w) * x).sum::<f64>() + bias(inputs.b_in, e * columns + c)
        })
        .collect();
    let act = |c: usize| problem.activation.reference(pre[c]);
    let up = |c: usize| {
        if problem.gated {
            problem.activation.reference_gated(pre[f + c])
        } else {
            1.0
        }
    };
    for c in 0..f {
        let hidden = act(c) * up(c);
        let g: f64 = (0..h).map(|i| f64::from(w_out[i * f + c]) * dy[i]).sum();
        gradients.weights[slot] += g * hidden;
        for (i, dy) in dy.iter().enumerate() {
            gradients.w_out[(e * h + i) * f + c] += weight * dy * hidden;
        }
        let slope = problem.activation.reference_gradient(pre[c]);
        let mut through = |column: usize, d: f64| {
            gradients.b_in[e * columns + column] += d;
            for i in 0..h {
                gradients.w_in[(e * columns + column) * h + i] += d * x[i];
                gradients.x[token * h + i] += d * f64::from(w_in[column * h + i]);
            }
        };
        through(c, weight * g * up(c) * slope);
        if problem.gated {
            let rise = problem.activation.reference_gated_gradient(pre[f + c]);
            through(f + c, weight * g * act(c) * rise);
        }
    }
    for (i, dy) in dy.iter().enumerate() {
        gradients.weights[slot] += dy * bias(inputs.b_out, e * h + i);
        gradients.b_out[e * h + i] += weight * dy;
    }
}
