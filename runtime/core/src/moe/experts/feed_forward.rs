//! Feed-forward experts on the fused path: no copy of the tokens, no intermediate combine.

use super::{activate, bias_of, biases, stacked};
use crate::Error;
use crate::check::element;
use crate::moe::check::{Like, cast_param};
use crate::ops::{Assignment, FeedForward, Run};
use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Tensor};
use moebius_ops::grouped_gemm::Activation;
use moebius_ops::moe;
use moebius_ops::{ShapeError, routing};

/// expert(x) = W_out · act(W_in · x + b_in) + b_out; gated W_out · (act(G x) ∘ (U x)), where W_in
/// holds the rows of G before those of U.
#[derive(Module, Debug)]
pub struct FeedForwardExperts {
    /// \[E,F,H\], gated \[E,2F,H\]: gate rows, then up rows.
    pub w_in: Param<Tensor<3>>,
    /// \[E,F\] or \[E,2F\].
    pub b_in: Option<Param<Tensor<2>>>,
    /// \[E,H,F\].
    pub w_out: Param<Tensor<3>>,
    /// \[E,H\].
    pub b_out: Option<Param<Tensor<2>>>,
}

/// The shape of feed-forward experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::moe) struct FeedForwardShape {
    pub(in crate::moe) hidden: usize,
    pub(in crate::moe) inter: usize,
    pub(in crate::moe) activation: Activation,
    pub(in crate::moe) gated: bool,
    pub(in crate::moe) bias: bool,
    /// Probability with which training drops an element after the activation.
    pub(in crate::moe) dropout: f64,
}

impl FeedForwardShape {
    /// Columns of the first product: F, or 2F when gated.
    pub(in crate::moe) fn columns_in(&self) -> usize {
        if self.gated {
            self.inter.saturating_mul(2)
        } else {
            self.inter
        }
    }

    /// The experts of the slots of `routing`, dropless.
    pub(in crate::moe) fn problem(
        &self,
        routing: routing::Problem,
        dtype: DType,
    ) -> Result<moe::Problem, ShapeError> {
        Ok(moe::Problem {
            routing,
            hidden: self.hidden,
            inter: self.inter,
            element: element(dtype)?,
            gated: self.gated,
            activation: self.activation,
            bias: self.bias,
            capacity: None,
            row_bound: routing.slots(),
        })
    }

    /// Weights uniform in ±1/√fan_in.
    pub(in crate::moe) fn init(&self, experts: usize, device: &Device) -> FeedForwardExperts {
        let (h, f, columns) = (self.hidden, self.inter, self.columns_in());
        FeedForwardExperts {
            w_in: stacked([experts, columns, h], device),
            b_in: biases(self.bias, [experts, columns], h, device),
            w_out: stacked([experts, h, f], device),
            b_out: biases(self.bias, [experts, h], f, device),
        }
    }
}

impl FeedForwardExperts {
    /// y \[T,H\] of x \[T,H\] and router weights \[T,K\].
    pub(in crate::moe) fn forward(
        &self,
        assignment: &Assignment,
        [x, weights]: [Tensor<2>; 2],
        shape: &FeedForwardShape,
        run: Run,
    ) -> Result<Tensor<2>, Error> {
        let records = x.device().is_autodiff();
        if records && shape.dropout > 0.0 {
            return self.forward_dropping(assignment, [x, weights], shape);
        }
        let experts = FeedForward {
            w_in: self.w_in.val(),
            b_in: bias_of(&self.b_in),
            w_out: self.w_out.val(),
            b_out: bias_of(&self.b_out),
        };
        let problem = shape.problem(assignment.routing(), x.dtype())?;
        assignment.feed_forward([x, weights], experts, problem, run)
    }

    /// The same in pieces, with the dropout between them.
    fn forward_dropping(
        &self,
        assignment: &Assignment,
        [x, weights]: [Tensor<2>; 2],
        shape: &FeedForwardShape,
    ) -> Result<Tensor<2>, Error> {
        let rows = assignment.gather(x)?;
        let rows = assignment.linear(rows, self.w_in.val(), bias_of(&self.b_in))?;
        let hidden = activate(rows, shape);
        let rows = assignment.linear(hidden, self.w_out.val(), bias_of(&self.b_out))?;
        assignment.combine(rows, Some(weights))
    }

    pub(in crate::moe) fn check(
        &self,
        like: &Like,
        shape: &FeedForwardShape,
        experts: usize,
    ) -> Result<(), ShapeError> {
        let (h, f, columns) = (shape.hidden, shape.inter, shape.columns_in());
        like.check("w_in [E, F or 2F, H]", &self.w_in, [experts, columns, h])?;
        like.check("w_out [E,H,F]", &self.w_out, [experts, h, f])?;
        like.check_optional("b_in", &self.b_in, shape.bias, [experts, columns])?;
        like.check_optional("b_out", &self.b_out, shape.bias, [experts, h])
    }

    pub(in crate::moe) fn cast(self, dtype: DType) -> Self {
        let bias = |bias: Param<Tensor<2>>| cast_param(bias, dtype);
        Self {
            w_in: cast_param(self.w_in, dtype),
            b_in: self.b_in.map(bias),
            w_out: cast_param(self.w_out, dtype),
            b_out: self.b_out.map(bias),
        }
    }
}
