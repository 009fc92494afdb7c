//! A linear layer that trains in FP8.

#[cfg(feature = "autodiff")]
use super::loss_scale::Finite;
use super::product::Fp8Product;
use super::recipe::Fp8Recipe;
use crate::Error;
use crate::initial::uniform;
use burn::module::{Module, Param};
use burn::nn::Linear;
#[cfg(feature = "autodiff")]
use burn::tensor::Gradients;
use burn::tensor::{Device, Tensor};
use moebius_ops::ShapeError;
use serde::{Deserialize, Serialize};

/// The shape of an [`Fp8TrainLinear`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fp8TrainLinearConfig {
    /// Width of x.
    pub inputs: usize,
    /// Width of y.
    pub outputs: usize,
    /// Whether there is a bias.
    pub bias: bool,
    /// How it rounds.
    #[serde(default)]
    pub recipe: Fp8Recipe,
}

impl Fp8TrainLinearConfig {
    /// With a bias, delayed scaling.
    pub fn new(inputs: usize, outputs: usize) -> Self {
        Self {
            inputs,
            outputs,
            bias: true,
            recipe: Fp8Recipe::default(),
        }
    }

    /// A copy with or without a bias.
    pub fn with_bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }

    /// A copy with another recipe.
    pub fn with_recipe(mut self, recipe: Fp8Recipe) -> Self {
        self.recipe = recipe;
        self
    }

    /// A layer with weights and bias uniform in ±1/√inputs, as PyTorch's `Linear`.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a width of 0 or a recipe that
    /// [doesn't work](Fp8Recipe::check).
    pub fn init(&self, device: &Device) -> Result<Fp8TrainLinear, Error> {
        for (what, width) in [("inputs", self.inputs), ("outputs", self.outputs)] {
            if width == 0 {
                return Err(ShapeError::new(what, "at least 1", width).into());
            }
        }
        let weight = uniform([self.outputs, self.inputs], self.inputs, device);
        let bias = self
            .bias
            .then(|| uniform([self.outputs], self.inputs, device));
        Fp8TrainLinear::with_weights(weight, bias, self.recipe)
    }
}

/// y = x̂ · Ŵᵀ + b: a linear layer whose product is computed from FP8 values, forward and backward.
///
/// The weights are ordinary parameters in f32 or bf16, which any optimizer trains; ŵ is made of them
/// in every forward. With dŷ = dy rounded: dx = dŷ · Ŵ, dW = dŷᵀ · x̂ accumulated in f32, db = Σ dy.
/// After each backward pass [`Fp8TrainLinear::update`] moves what it measured into the scales.
/// Source: Micikevicius et al. 2022, "FP8 Formats for Deep Learning".
///
/// ```no_run
/// use burn::tensor::{Distribution, Tensor};
/// use moebius::fp8::training::Fp8TrainLinearConfig;
///
/// # fn main() -> Result<(), moebius::Error> {
/// let device = moebius::open(&moebius::Device::Auto)?.autodiff();
/// let layer = Fp8TrainLinearConfig::new(256, 64).init(&device)?;
/// let x = Tensor::<3>::random([8, 16, 256], Distribution::Default, &device);
/// let gradients = layer.forward(x)?.powi_scalar(2).mean().backward();
/// layer.update(&gradients, None);
/// # Ok(())
/// # }
/// ```
#[derive(Module, Debug)]
pub struct Fp8TrainLinear {
    /// \[outputs, inputs\].
    pub weight: Param<Tensor<2>>,
    /// \[outputs\].
    pub bias: Option<Param<Tensor<1>>>,
    /// Its scales.
    pub product: Fp8Product,
}

impl Fp8TrainLinear {
    /// A layer with these parameters, weight \[outputs, inputs\].
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a bias of another length, or a recipe that
    /// [doesn't work](Fp8Recipe::check).
    pub fn with_weights(
        weight: Param<Tensor<2>>,
        bias: Option<Param<Tensor<1>>>,
        recipe: Fp8Recipe,
    ) -> Result<Self, Error> {
        recipe.check()?;
        let value = weight.val();
        if let Some(bias) = &bias {
            ShapeError::check("bias [outputs]", value.dims()[0], bias.val().dims()[0])?;
        }
        Ok(Self {
            product: Fp8Product::new(recipe, &value.device()),
            weight,
            bias,
        })
    }

    /// Burn's layer in FP8; its weights are \[inputs, outputs\] and are transposed once.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a recipe that
    /// [doesn't work](Fp8Recipe::check).
    pub fn from_linear(linear: Linear, recipe: Fp8Recipe) -> Result<Self, Error> {
        Self::with_weights(linear.weight.map(transposed), linear.bias, recipe)
    }

    /// Burn's layer with the weights as they are now, in full precision.
    pub fn into_linear(self) -> Linear {
        Linear {
            weight: self.weight.map(transposed),
            bias: self.bias,
        }
    }

    /// y \[.., outputs\] of x \[.., inputs\], in the weights' dtype.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another width, dtype or device than the
    /// weights', or state of another recipe in a record;
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't run it.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Result<Tensor<D>, Error> {
        let [outputs, inputs] = self.weight.val().dims();
        let mut shape = x.dims();
        let width = shape.last().copied().unwrap_or(0);
        ShapeError::check("last dimension of x", inputs, width)?;
        let rows = shape[..D - 1].iter().product::<usize>();
        shape[D - 1] = outputs;
        if rows == 0 {
            self.product.check()?;
            return Ok(Tensor::empty(shape, (&x.device(), x.dtype())));
        }
        let x = x.reshape([rows, inputs]);
        let y = self.product.linear(x, self.weight.val())?;
        let y = match &self.bias {
            Some(bias) => y + bias.val().unsqueeze(),
            None => y,
        };
        Ok(y.reshape(shape))
    }

    /// Moves the amaxes of a backward pass into the scales of the next forward; `finite` is what
    /// loss scaling found, and a step that it skips changes nothing. Nothing is read back.
    #[cfg(feature = "autodiff")]
    pub fn update(&self, gradients: &Gradients, finite: Option<&Finite>) {
        self.product.update(gradients, finite);
    }
}

/// A parameter's transpose; it stays a leaf, trained or frozen as before.
fn transposed(weight: Tensor<2>) -> Tensor<2> {
    let trained = weight.is_require_grad();
    weight.transpose().detach().set_require_grad(trained)
}
