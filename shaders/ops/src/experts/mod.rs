//! The feed-forward experts of a mixture-of-experts layer.
//!
//! y_t = Σ_k w_tk · expert_{e(t,k)}(x_t), expert(x) = W_out · act(W_in · x + b_in) + b_out, gated:
//! W_out · (act(G x) ∘ (U x)).
//!
//! A dense network ([`Problem::dense`]) is one expert of all tokens: y_t = expert(x_t), and nothing is sorted.

mod oracle;

pub use oracle::{ReferenceGradients, ReferenceInputs, reference, reference_backward};

use crate::element::Element;
use crate::error::Mismatch;
use crate::grouped_gemm::{self, Activation, Source};
use crate::permute::{Capacity, RowsProblem};
use crate::routing;
use serde::{Deserialize, Serialize};

/// The shape of a layer's experts and of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// Tokens, experts, choices per token.
    pub routing: routing::Problem,
    /// Width of a token H.
    pub hidden: usize,
    /// Width of an expert F.
    pub inter: usize,
    /// Type of x, the weights and y.
    pub element: Element,
    /// Gate and up projections instead of one.
    pub gated: bool,
    /// Between the two products.
    pub activation: Activation,
    /// Whether the experts have biases.
    pub bias: bool,
    /// Slots an expert takes; `None` never drops.
    #[serde(with = "crate::permute::capacity::exact")]
    pub capacity: Option<Capacity>,
    /// The most slots that reach an expert R; S unless a capacity is known here.
    pub row_bound: usize,
    /// One expert has all tokens, in their order, with router weights of 1; there is no sort.
    pub dense: bool,
}

/// What a forward keeps for its backward pass, beside its inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// The first product before its activation: F or 2F elements a slot.
    #[default]
    FirstProduct,
    /// Nothing: the first product is computed again.
    Inputs,
}

impl Problem {
    /// Columns of the first product: F, or 2F when gated.
    pub fn columns_in(&self) -> usize {
        if self.gated {
            self.inter.saturating_mul(2)
        } else {
            self.inter
        }
    }

    /// A product of the sorted rows: \[.., `k`\] · \[`n`, `k`\]ᵀ per expert.
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

    /// How a product of the experts' rows finds them in a buffer with one row for each token.
    pub fn token_rows(&self) -> Source {
        if self.dense {
            Source::Sorted
        } else {
            Source::Tokens
        }
    }

    /// The first product, with the activation.
    ///
    /// # Errors
    /// As [`Problem::check`].
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
    /// As [`Problem::check`].
    pub fn down(&self) -> Result<grouped_gemm::Problem, Mismatch> {
        Ok(grouped_gemm::Problem {
            bias: self.bias,
            ..self.product(self.hidden, self.inter)?
        })
    }

    /// The rows of the second product.
    ///
    /// # Errors
    /// As [`Problem::check`].
    pub fn output_rows(&self) -> Result<RowsProblem, Mismatch> {
        RowsProblem::new(&self.routing, self.row_bound, self.hidden, self.element)
    }

    /// Checks the sizes of both products.
    ///
    /// # Errors
    /// [`Mismatch`] when a size is 0 or an index would not fit 31 bits, and for a dense network of several experts, choices, or
    /// rows of a token.
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

    /// Floating-point operations of both products of as many rows as a routing can produce.
    pub fn flops(&self) -> u64 {
        let products = if self.gated { 3 } else { 2 };
        2 * products * (self.row_bound * self.hidden) as u64 * self.inter as u64
    }

    /// Bytes a forward must hold: weights, x, y, hidden activations and the experts' outputs.
    pub fn floor_bytes(&self) -> u64 {
        let (h, f, e) = (self.hidden, self.inter, self.routing.experts());
        let projections = if self.gated { 3 } else { 2 };
        let weights = e * projections * h * f + e * h;
        let activations = 2 * self.routing.tokens() * h + self.row_bound * (f + h);
        ((weights + activations) * self.element.bytes()) as u64
    }
}
