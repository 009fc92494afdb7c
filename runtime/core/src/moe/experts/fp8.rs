//! Feed-forward experts with FP8 weights, for inference.

use super::{FeedForwardExperts, FeedForwardShape, bias_of};
use crate::Error;
use crate::check::{check_same, element};
use crate::fp8::{ActivationScaling, Activations, Fp8Matrices, Fp8Tensor, Quantizer};
use crate::fp8::{check_inference, inner};
use crate::moe::check::{Like, cast_param};
use crate::ops::Assignment;
use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Tensor};
use moebius_ops::ShapeError;
use moebius_ops::grouped_gemm::{Problem, Source};
use moebius_ops::scaling::Granularity;

/// [`FeedForwardExperts`] whose weights are FP8 codes and scales only, a quarter of the memory of f32;
/// codes are decoded while the grouped products load them.
///
/// Activations keep their dtype, or are rounded to FP8 before both products. It has no derivative.
#[derive(Module, Debug)]
pub struct Fp8Experts {
    /// \[E,F,H\], gated \[E,2F,H\]: gate rows, then up rows.
    pub w_in: Fp8Matrices,
    /// \[E,F\] or \[E,2F\].
    pub b_in: Option<Param<Tensor<2>>>,
    /// \[E,H,F\].
    pub w_out: Fp8Matrices,
    /// \[E,H\].
    pub b_out: Option<Param<Tensor<2>>>,
    /// How tokens are rounded before the first product.
    pub tokens: ActivationScaling,
    /// How hidden rows are rounded before the second.
    pub hidden: ActivationScaling,
    /// Dtype of x and the biases.
    #[module(skip)]
    dtype: DType,
}

impl Fp8Experts {
    /// Of stacks W_in \[E, F or 2F, H\] and W_out \[E,H,F\] for x of `dtype`; `gated` says that W_in
    /// holds gate rows, then up rows.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when the stacks or biases don't fit each other.
    pub fn new(
        [w_in, w_out]: [Fp8Tensor; 2],
        [b_in, b_out]: [Option<Tensor<2>>; 2],
        gated: bool,
        dtype: DType,
    ) -> Result<Self, Error> {
        element(dtype)?;
        let parts = if gated { 2 } else { 1 };
        let ([experts, columns, hidden], out) = (w_in.layout().shape, w_out.layout().shape);
        check_same("w_out [E,H,F]", out, [experts, hidden, columns / parts])?;
        for (what, bias, width) in [("b_in", &b_in, columns), ("b_out", &b_out, hidden)] {
            if let Some(bias) = bias {
                check_same(what, bias.dims(), [experts, width])?;
            }
        }
        let device = w_in.device();
        let bias = |bias: Option<Tensor<2>>| {
            bias.map(|bias| Param::from_tensor(inner(bias)).set_require_grad(false))
        };
        Ok(Self {
            w_in: Fp8Matrices::new(w_in, parts)?,
            b_in: bias(b_in),
            w_out: Fp8Matrices::new(w_out, 1)?,
            b_out: bias(b_out),
            tokens: ActivationScaling::new(Activations::Float, &device),
            hidden: ActivationScaling::new(Activations::Float, &device),
            dtype,
        })
    }

    /// Quantises experts; they stay as they are. Beside them ‖decoded − before‖ / ‖before‖ of W_in and
    /// W_out.
    ///
    /// # Errors
    /// As [`Fp8Tensor::quantize`].
    pub(in crate::moe) fn from_experts(
        experts: &FeedForwardExperts,
        gated: bool,
        quantizer: &Quantizer,
    ) -> Result<(Self, [f32; 2]), Error> {
        let (w_in, in_error) = quantize_stack(inner(experts.w_in.val()), quantizer)?;
        let (w_out, out_error) = quantize_stack(inner(experts.w_out.val()), quantizer)?;
        let biases = [&experts.b_in, &experts.b_out].map(bias_of);
        let dtype = experts.w_in.val().dtype();
        let small = Self::new([w_in, w_out], biases, gated, dtype)?;
        Ok((small, [in_error, out_error]))
    }

    /// A copy with tokens and hidden rows rounded to FP8.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for dynamic scales that several rows share: rows
    /// past the last expert's are undefined.
    pub fn with_activations(self, source: Activations) -> Result<Self, Error> {
        check_activations(source)?;
        let device = self.w_in.device();
        Ok(Self {
            tokens: ActivationScaling::new(source, &device),
            hidden: ActivationScaling::new(source, &device),
            ..self
        })
    }

    /// y \[T,H\] of x \[T,H\] and router weights \[T,K\].
    pub(in crate::moe) fn forward(
        &self,
        assignment: &Assignment,
        [x, weights]: [Tensor<2>; 2],
        shape: &FeedForwardShape,
    ) -> Result<Tensor<2>, Error> {
        check_inference(&x.device())?;
        let dtype = x.dtype();
        self.w_in.check(&x.device())?;
        self.w_out.check(&x.device())?;
        let x = self.tokens.apply(x)?;
        let problem = assignment.product([shape.inter, shape.hidden], x.dtype())?;
        let up = Problem {
            rows: Source::Tokens,
            gated: shape.gated,
            activation: Some(shape.activation),
            bias: shape.bias,
            fp8: Some(self.w_in.weights()),
            ..problem
        };
        let bias = |bias, dtype| bias_of(bias).map(|bias: Tensor<2>| bias.cast(dtype));
        let b_in = bias(&self.b_in, x.dtype());
        let hidden = assignment.fp8_linear(x, self.w_in.coded(b_in), up)?;
        // A largest magnitude is of all rows, also those past the last expert's.
        let hidden = match self.hidden.measures() {
            true => assignment.defined(hidden),
            false => hidden,
        };
        let hidden = self.hidden.apply(hidden)?;
        let down = Problem {
            bias: shape.bias,
            fp8: Some(self.w_out.weights()),
            ..assignment.product([shape.hidden, shape.inter], hidden.dtype())?
        };
        let b_out = bias(&self.b_out, hidden.dtype());
        let rows = assignment.fp8_linear(hidden, self.w_out.coded(b_out), down)?;
        Ok(assignment.combine(rows, Some(weights))?.cast(dtype))
    }

    pub(in crate::moe) fn check(
        &self,
        like: &Like,
        shape: &FeedForwardShape,
        experts: usize,
    ) -> Result<(), ShapeError> {
        let (h, f, columns) = (shape.hidden, shape.inter, shape.columns_in());
        check_same(
            "w_in [E, F or 2F, H]",
            self.w_in.layout().shape,
            [experts, columns, h],
        )?;
        check_same("w_out [E,H,F]", self.w_out.layout().shape, [experts, h, f])?;
        like.check_optional("b_in", &self.b_in, shape.bias, [experts, columns])?;
        like.check_optional("b_out", &self.b_out, shape.bias, [experts, h])
    }

    pub(in crate::moe) fn like(&self) -> Like {
        Like {
            dtype: self.dtype,
            device: self.w_in.device(),
        }
    }

    /// The biases in another dtype; codes have none.
    pub(in crate::moe) fn cast(self, dtype: DType) -> Self {
        let bias = |bias: Param<Tensor<2>>| cast_param(bias, dtype);
        Self {
            b_in: self.b_in.map(bias),
            b_out: self.b_out.map(bias),
            dtype,
            ..self
        }
    }

    /// Bytes of codes, scales and biases.
    pub fn bytes(&self) -> usize {
        let bias = |bias: &Option<Param<Tensor<2>>>| {
            bias_of(bias).map_or(0, |b| b.shape().num_elements() * b.dtype().size())
        };
        self.w_in.bytes() + self.w_out.bytes() + bias(&self.b_in) + bias(&self.b_out)
    }

    /// Where they are.
    pub fn device(&self) -> Device {
        self.w_in.device()
    }
}

/// Refuses what experts can't follow.
pub(in crate::moe) fn check_activations(source: Activations) -> Result<(), Error> {
    source.validate()?;
    if let Activations::Dynamic(Granularity::Tensor | Granularity::Block { rows: 2.., .. }) = source
    {
        let expected = "scales of one row, or one for all batches";
        return Err(
            ShapeError::new("activations of experts", expected, format!("{source:?}")).into(),
        );
    }
    Ok(())
}

/// Bytes of weights that are quantised at once: a stack may be more than a device binds.
const AT_ONCE: usize = 64 << 20;

/// A stack in FP8, some experts at a time, and its relative error, read back.
fn quantize_stack(w: Tensor<3>, quantizer: &Quantizer) -> Result<(Fp8Tensor, f32), Error> {
    let [experts, n, k] = w.dims();
    let together = (AT_ONCE / (n * k * w.dtype().size()).max(1)).clamp(1, experts.max(1));
    let (mut parts, mut errors, mut norms) = (Vec::new(), Vec::new(), Vec::new());
    for first in (0..experts).step_by(together) {
        let part = w.clone().narrow(0, first, together.min(experts - first));
        let small = Fp8Tensor::quantize(part.clone(), quantizer)?;
        let norm = part.clone().cast(DType::F32).square().sum();
        errors.push(small.relative_error(part)?.square() * norm.clone());
        norms.push(norm);
        parts.push(small);
    }
    let sum = |values: Vec<Tensor<1>>| Tensor::cat(values, 0).sum();
    let error = (sum(errors) / sum(norms).clamp_min(f32::MIN_POSITIVE)).sqrt();
    let error = error.try_into_vec_as::<f32>().map_err(Error::device)?;
    let error = error.first().copied().unwrap_or(0.0);
    Ok((Fp8Tensor::concat(parts)?, error))
}
