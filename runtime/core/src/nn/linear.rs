//! A linear layer with a weight in any precision.

use super::linear;
use crate::Error;
use crate::check::{check_device, check_positive, check_same, reshaped, shaped};
use crate::fp8::training::{Fp8Product, Fp8Recipe};
use crate::fp8::{ActivationScaling, Fp8Tensor, Instructions, Operand, Quantizer, Weight, changed};
use crate::ops::Rows;
use crate::parameters::uniform;
use crate::sparse::Sparse24Tensor;
use burn::module::{Module, Param};
use burn::nn;
use burn::tensor::{DType, Device, Tensor};
use moebius_ops::Mismatch;
use serde::{Deserialize, Serialize};

/// The configuration of a [`Linear`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearConfig {
    /// Width of x.
    #[serde(alias = "inputs")]
    pub d_input: usize,
    /// Width of y.
    #[serde(alias = "outputs")]
    pub d_output: usize,
    /// Whether there is a bias.
    pub bias: bool,
    /// The recipe of FP8 training; `None` trains in floating point.
    #[serde(default)]
    pub fp8: Option<Fp8Recipe>,
}

setters! { LinearConfig:
    /// Sets whether there is a bias.
    with_bias: bias: bool,
    /// Sets the recipe of FP8 training, or none; see [`crate::fp8::training`].
    with_fp8: fp8: Option<Fp8Recipe>,
}

impl LinearConfig {
    /// A layer with a bias, in floating point.
    pub fn new(d_input: usize, d_output: usize) -> Self {
        Self {
            d_input,
            d_output,
            bias: true,
            fp8: None,
        }
    }

    /// Creates a layer with weights and bias uniform in ±1/√`d_input`, like PyTorch's `Linear`. [`Linear::new`] takes parameters with other
    /// values, such as those that Burn's `Initializer` draws.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a width of 0 or a recipe that
    /// [doesn't work](Fp8Recipe::validate).
    pub fn init(&self, device: &Device) -> Result<Linear, Error> {
        let (d_input, d_output) = (self.d_input, self.d_output);
        check_positive("d_input", d_input)?;
        check_positive("d_output", d_output)?;
        let weight = uniform([d_output, d_input], d_input, device);
        let bias = || uniform([d_output], d_input, device);
        let layer = Linear::new(weight, self.bias.then(bias))?;
        match self.fp8 {
            Some(recipe) => layer.in_fp8(recipe),
            None => Ok(layer),
        }
    }
}

/// A linear layer y = x · Wᵀ + b with a [`Weight`] W \[`d_output`, `d_input`\] in any precision; Burn's layer has W transposed.
///
/// | precision of W | y | training |
/// |---|---|---|
/// | in floating point | x · Wᵀ + b | by any optimizer |
/// | trained in FP8 | x̂ · Ŵᵀ + b of rounded x and W; with dy rounded to dŷ, dx = dŷ · Ŵ, dW = dŷᵀ · x̂, db = Σ dy | by any optimizer; [`training::update`](crate::fp8::training) after each backward pass |
/// | FP8 codes | x · Wᵀ + b with decoded W; codes take a quarter of the memory of f32 | of b; x has a gradient |
/// | blocks of codes | x · Wᵀ + b with decoded W; the blocks take the bytes that they have in a file | of b; x has a gradient |
/// | 2:4 | x · Wᵀ + b, with 0 in place of the half of W that was dropped; what is kept takes 53 % of the memory in f32 | of b; x has a gradient |
///
/// Activations before codes stay in their dtype, or are rounded to FP8, too ([`Linear::with_activations`]), which no device that records
/// gradients takes. The training follows Micikevicius et al. 2022, "FP8 Formats for Deep Learning". Where no operand is rounded,
/// [low-rank changes](crate::fp8::LowRank) of W train beside it.
///
/// ```
/// use burn::tensor::{Distribution, Tensor};
/// use moebius::fp8::{Fp8Format, Granularity, Quantizer};
/// use moebius::nn::LinearConfig;
///
/// # fn main() -> Result<(), moebius::Error> {
/// # #[cfg(feature = "flex")] {
/// let device = moebius::open(&moebius::Device::Flex)?;
/// let linear = LinearConfig::new(512, 256).init(&device)?;
///
/// let small = linear.quantize(&Quantizer::new(Fp8Format::E4M3, Granularity::Row))?;
/// // Codes, scales and the bias.
/// assert_eq!(small.bytes(), 512 * 256 + 4 * 256 + 4 * 256);
///
/// let x = Tensor::<3>::random([2, 7, 512], Distribution::Default, &device);
/// assert_eq!(small.forward(x)?.dims(), [2, 7, 256]);
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Module, Debug)]
pub struct Linear {
    /// The weight W, \[`d_output`, `d_input`\].
    pub weight: Weight<2>,
    /// The bias b, \[`d_output`\], in the dtype of x.
    pub bias: Option<Param<Tensor<1>>>,
}

impl From<nn::Linear> for Linear {
    /// Transposes Burn's weight \[`d_input`, `d_output`\] once.
    fn from(linear: nn::Linear) -> Self {
        Self {
            weight: linear.weight.map(transposed).into(),
            bias: linear.bias,
        }
    }
}

impl Linear {
    /// A layer with the weight W \[out, in\] and the bias b \[out\].
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a bias of another length.
    pub fn new(
        weight: impl Into<Weight<2>>,
        bias: Option<Param<Tensor<1>>>,
    ) -> Result<Self, Error> {
        let weight = weight.into();
        if let Some(bias) = &bias {
            let [out, _] = weight.dims();
            Mismatch::check("bias [out]", out, bias.lazy_shape()[0])?;
        }
        Ok(Self { weight, bias })
    }

    /// A layer with codes and scales of W \[out, in\], and with a bias b \[out\], which is detached from the graph.
    ///
    /// # Errors
    /// As [`Weight::from_fp8`] and [`Linear::new`].
    pub fn from_fp8(weight: Fp8Tensor, bias: Option<Tensor<1>>) -> Result<Self, Error> {
        let bias = bias.map(|bias| Param::from_tensor(bias.without_autodiff()));
        let bias = bias.map(|bias| bias.set_require_grad(false));
        Self::new(Weight::from_fp8(weight, 1)?, bias)
    }

    /// A layer with 2:4 weights W \[out, in\] and the bias b \[out\].
    ///
    /// # Errors
    /// As [`Linear::new`].
    pub fn from_sparse24(
        weight: Sparse24Tensor,
        bias: Option<Param<Tensor<1>>>,
    ) -> Result<Self, Error> {
        Self::new(Weight::from_sparse24(weight)?, bias)
    }

    /// Returns the layer with the two weights of largest magnitude of each four neighbouring ones of an output, and without the others,
    /// which are 0 from now on; this layer stays as it is.
    ///
    /// # Errors
    /// As [`Sparse24Tensor::from_dense`] and [`Weight::values`].
    pub fn sparsify(&self) -> Result<Self, Error> {
        let weight = Sparse24Tensor::from_dense(self.weight.values()?)?;
        Self::from_sparse24(weight, self.bias.clone())
    }

    /// Returns Burn's layer with the current values.
    ///
    /// # Errors
    /// As [`Weight::values`].
    pub fn into_burn(self) -> Result<nn::Linear, Error> {
        let weight = Module::materialize(self.weight);
        Ok(nn::Linear {
            weight: weight.into_float()?.map(transposed),
            bias: self.bias,
        })
    }

    /// A copy that trains in FP8.
    ///
    /// # Errors
    /// As [`Weight::in_fp8`].
    pub fn in_fp8(self, recipe: Fp8Recipe) -> Result<Self, Error> {
        let weight = self.weight.in_fp8(recipe)?;
        Ok(Self { weight, ..self })
    }

    /// Returns the layer with FP8 codes for inference; this layer stays as it is.
    ///
    /// # Errors
    /// As [`Weight::quantize`].
    pub fn quantize(&self, quantizer: &Quantizer) -> Result<Self, Error> {
        let (weight, _) = self.weight.quantize(quantizer)?;
        let bias = self.bias.as_ref().map(Module::valid);
        Self::new(weight, bias.map(|bias| bias.set_require_grad(false)))
    }

    /// A copy of a layer of codes whose activations are rounded to FP8.
    ///
    /// # Errors
    /// As [`Weight::with_activations`].
    pub fn with_activations(self, activations: ActivationScaling) -> Result<Self, Error> {
        let weight = self.weight.with_activations(activations)?;
        Ok(Self { weight, ..self })
    }

    /// A copy of a layer of codes whose product uses the given FP8 instructions of the device.
    ///
    /// # Errors
    /// As [`Weight::with_unproven_instructions`].
    pub fn with_unproven_instructions(self, instructions: Instructions) -> Result<Self, Error> {
        let weight = self.weight.with_unproven_instructions(instructions)?;
        Ok(Self { weight, ..self })
    }

    /// Computes y \[.., out\] from x \[.., in\] of any rank.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a last dimension other than `in`, another dtype than the parameters', or a weight
    /// without elements, [`ErrorKind::Device`](crate::ErrorKind::Device) for another device, [`ErrorKind::Config`](crate::ErrorKind::Config)
    /// for rounded activations before codes on a device that records gradients, [`ErrorKind::State`](crate::ErrorKind::State) for the state
    /// of another recipe, loaded from a record, or activations that aren't calibrated;
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when a buffer exceeds what the device binds, or the device lacks the
    /// configured instructions.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Result<Tensor<D>, Error> {
        let mut shape = x.dims();
        let [n, k] = self.weight.dims();
        let (right, got) = (shape.last() == Some(&k), format_args!("{shape:?}"));
        Mismatch::unless(right, "x [.., in]", format_args!("[.., {k}]"), got)?;
        let operand = self.weight.operand();
        let bias = self.bias.as_ref().map(Param::val);
        self.check((&operand, bias.as_ref()), x.dtype(), &x.device())?;
        let rows: usize = shape[..D - 1].iter().product();
        shape[D - 1] = n;
        if rows == 0 {
            return Ok(Tensor::empty(shape, (&x.device(), x.dtype())));
        }
        // Kernels multiply nothing by nothing, and Burn's `reshape` reads a width of 0 as another size.
        let wide = n > 0 && k > 0;
        let (expected, got) = ("at least 1 output and 1 input", format_args!("[{n}, {k}]"));
        Mismatch::unless(wide, "weight [out, in]", expected, got)?;
        let y = self.rows(shaped(x, [rows, k]), operand, bias)?;
        Ok(shaped(y, shape))
    }

    /// Computes y \[rows, out\] from a checked x \[rows, in\], the weight and the bias.
    fn rows(
        &self,
        x: Tensor<2>,
        weight: Operand<'_, 2>,
        bias: Option<Tensor<1>>,
    ) -> Result<Tensor<2>, Error> {
        let changes = self.weight.changes();
        // Without another handle of x, a device may write in its place.
        let of_changes = (!changes.is_empty()).then(|| x.clone());
        let y = match weight {
            Operand::Float(w) => linear(x, w, bias)?,
            Operand::Training(product, w) => {
                let y = product.apply(x, w, |x, w| linear(x, w, None))?;
                // The bias is added outside of the product, because its gradient is that of y without rounding.
                return Ok(match bias {
                    Some(bias) => y + bias.unsqueeze(),
                    None => y,
                });
            }
            Operand::Codes(codes) => codes.linear(x, bias)?,
            Operand::Sparse24(weights) => weights.linear(x, bias)?,
            Operand::Blocks(weights) => weights.linear(x, bias)?,
        };
        match of_changes {
            Some(x) => changed(y, &x, changes, Rows::All(None)),
            None => Ok(y),
        }
    }

    /// Checks the weight and the bias, which records may have replaced, against the dtype and device of x.
    fn check(
        &self,
        (weight, bias): (&Operand<'_, 2>, Option<&Tensor<1>>),
        dtype: DType,
        device: &Device,
    ) -> Result<(), Error> {
        match weight {
            Operand::Codes(codes) => codes.check(device)?,
            Operand::Sparse24(weights) => {
                check_same("dtype of x", dtype, weights.dtype())?;
                weights.check(device)?;
            }
            Operand::Blocks(weights) => {
                check_same("dtype of x", dtype, weights.dtype())?;
                weights.check(device)?;
            }
            Operand::Float(w) | Operand::Training(_, w) => {
                check_same("dtype of x", dtype, w.dtype())?;
                check_device("device of x", device.clone(), &w.device())?;
            }
        }
        self.weight.product().map_or(Ok(()), Fp8Product::check)?;
        if !self.weight.changes().is_empty() {
            check_same("dtype of x, that of changes", dtype, self.weight.dtype())?;
        }
        if let Some(bias) = bias {
            check_same("bias [out]", bias.dims(), [self.weight.dims()[0]])?;
            check_same("dtype of x, that of the bias", dtype, bias.dtype())?;
            check_device("device of the bias", bias.device(), device)?;
        }
        Ok(())
    }

    /// Bytes of weight and bias.
    pub fn bytes(&self) -> usize {
        let bias = self.bias.as_ref();
        let bias = bias.map_or(0, |bias| bias.dims()[0] * bias.dtype().size());
        self.weight.bytes() + bias
    }
}

/// Transposes a matrix in memory, so that products needn't do it each time; the result stays a leaf, trained or frozen as before.
fn transposed(weight: Tensor<2>) -> Tensor<2> {
    let (trained, [rows, columns]) = (weight.is_require_grad(), weight.dims());
    let turned = reshaped(weight.transpose(), [rows * columns]);
    let turned = reshaped(turned, [columns, rows]);
    turned.detach().set_require_grad(trained)
}
