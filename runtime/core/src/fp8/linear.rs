//! A linear layer with FP8 weights.

use super::activations::{ActivationScaling, Activations};
use super::instructions;
use super::matrices::Fp8Matrices;
use super::quantizer::Quantizer;
use super::tensor::Fp8Tensor;
use crate::Error;
use crate::check::{check_device, check_same, element};
use crate::ops::{Grouping, fp8_linear};
use burn::module::{Module, Param};
use burn::nn;
use burn::tensor::{DType, Device, Tensor};
use moebius_ops::grouped_gemm::Problem;
use moebius_ops::{Element, ShapeError};

/// y = x · Wᵀ + b, where W \[out, in\] ≈ code · scale is kept as FP8 codes and scales only: a quarter of
/// the memory of f32.
///
/// Activations stay in their dtype (W8A16: f32, f16 or bf16 where the device stores it) and codes are
/// decoded while they are loaded, on every device; or they are rounded to FP8, too
/// ([`Fp8Linear::with_activations`], W8A8). Sums are f32 over the inner columns in order, so a row's
/// result doesn't depend on the others; XLA takes an order by the shapes, so there the last bits depend
/// on how many they are. It is for inference and has no derivative.
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::tensor::{Distribution, Tensor};
/// use moebius::fp8::{Fp8Format, Fp8Linear, Granularity, Quantizer};
///
/// # fn main() -> Result<(), moebius::Error> {
/// # #[cfg(feature = "flex")] {
/// let device = moebius::open(&moebius::Device::Flex)?;
/// let linear = LinearConfig::new(512, 256).init(&device);
///
/// let quantizer = Quantizer::new(Fp8Format::E4M3, Granularity::Row);
/// let small = Fp8Linear::from_linear(&linear, &quantizer)?;
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
pub struct Fp8Linear {
    /// \[1, out, in\].
    pub weight: Fp8Matrices,
    /// \[out\], in the dtype of x.
    pub bias: Option<Param<Tensor<1>>>,
    /// How x is rounded, if it is.
    pub activations: ActivationScaling,
    /// Whether codes are multiplied as such.
    #[module(skip)]
    instructions: bool,
}

impl Fp8Linear {
    /// Of W \[out, in\] and b \[out\].
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when W is a stack, or b has another length.
    pub fn new(weight: Fp8Tensor, bias: Option<Tensor<1>>) -> Result<Self, Error> {
        let [matrices, out, _] = weight.layout().shape;
        ShapeError::check("matrices of a linear layer", 1, matrices)?;
        if let Some(bias) = &bias {
            ShapeError::check("bias [out]", out, bias.dims()[0])?;
        }
        let activations = ActivationScaling::new(Activations::Float, &weight.device());
        Ok(Self {
            weight: Fp8Matrices::new(weight, 1)?,
            bias: bias.map(|bias| Param::from_tensor(inner(bias)).set_require_grad(false)),
            activations,
            instructions: false,
        })
    }

    /// Quantises the weights of a layer, in whatever layout it has them; the layer stays as it is.
    ///
    /// # Errors
    /// As [`Fp8Tensor::quantize`].
    pub fn from_linear(linear: &nn::Linear, quantizer: &Quantizer) -> Result<Self, Error> {
        let weight = out_in(linear);
        let weight = Fp8Tensor::quantize(weight, quantizer)?;
        let bias = linear.bias.as_ref().map(|bias| inner(bias.val()));
        Self::new(weight, bias)
    }

    /// A copy with activations rounded to FP8.
    #[must_use]
    pub fn with_activations(self, activations: ActivationScaling) -> Self {
        Self {
            activations,
            ..self
        }
    }

    /// A copy with codes multiplied by the device's FP8 matrix instructions, instead of what they
    /// decode to.
    ///
    /// Unproven: the kernel compiles and has run on no GPU, which is why nothing chooses it. It needs
    /// CUDA from sm_89 on through CubeCL's CUDA C++ compiler (its feature `cuda-cpp`, which no feature of
    /// this crate turns on), and activations with dynamic scales of rows or of 1 × 128 blocks. Elsewhere [`Fp8Linear::forward`] is an error.
    #[must_use]
    pub fn with_unproven_instructions(self) -> Self {
        Self {
            instructions: true,
            ..self
        }
    }

    /// y \[.., out\] of x \[.., in\] of any rank.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a last dimension other than `in`, a dtype other
    /// than that of b, another device, a recording device, or activations that aren't calibrated;
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when a buffer exceeds what the device
    /// binds, or it lacks the instructions asked for.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Result<Tensor<D>, Error> {
        let mut shape = x.dims();
        let [_, n, k] = self.weight.layout().shape;
        if D == 0 || shape[D - 1] != k {
            let got = format!("{shape:?}");
            return Err(ShapeError::new("x [.., in]", format!("[.., {k}]"), got).into());
        }
        let problem = self.problem(&x, x.shape().num_elements() / k)?;
        shape[D - 1] = n;
        if problem.row_bound == 0 {
            return Ok(Tensor::zeros(shape, (&x.device(), x.dtype())));
        }
        let dtype = x.dtype();
        let x = x.reshape([problem.row_bound, k]);
        if self.instructions {
            let y = instructions::multiply(x.clone(), &self.activations, &self.weight)?;
            let y = match &self.bias {
                Some(bias) => y + bias.val().cast(DType::F32).unsqueeze(),
                None => y,
            };
            return Ok(y.cast(dtype).reshape(shape));
        }
        let x = self.activations.apply(x)?;
        let bias = self.bias.as_ref();
        let bias = bias.map(|bias| bias.val().cast(x.dtype()).unsqueeze());
        let y = fp8_linear::run(x, self.weight.coded(bias), Grouping::Dense, (problem, None))?;
        Ok(y.cast(dtype).reshape(shape))
    }

    /// The checked product of so many rows like those of `x`.
    fn problem<const D: usize>(&self, x: &Tensor<D>, rows: usize) -> Result<Problem, Error> {
        let device = x.device();
        check_inference(&device)?;
        self.weight.check(&device)?;
        let [_, n, k] = self.weight.layout().shape;
        if let Some(bias) = &self.bias {
            // Records replace it.
            let bias = bias.val();
            check_same("bias [out]", bias.dims(), [n])?;
            check_same("dtype of x, that of the bias", x.dtype(), bias.dtype())?;
            check_device("device of the bias", bias.device(), &device)?;
        }
        Ok(Problem {
            element: match self.activations.source() {
                Activations::Float => element(x.dtype())?,
                // A rounded value is code · scale, which 16 bits may not hold.
                _ => Element::F32,
            },
            bias: self.bias.is_some(),
            fp8: Some(self.weight.weights()),
            ..Problem::dense(rows, n, k)?
        })
    }

    /// Bytes of codes, scales and bias.
    pub fn bytes(&self) -> usize {
        let bias = self
            .bias
            .as_ref()
            .map_or(0, |bias| bias.dims()[0] * bias.val().dtype().size());
        self.weight.bytes() + bias
    }
}

/// W \[out, in\] of a layer, off the graph.
pub(crate) fn out_in(linear: &nn::Linear) -> Tensor<2> {
    inner(linear.weight.val()).transpose()
}

/// The same values on the device that doesn't record.
pub(crate) fn inner<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    match tensor.device().is_autodiff() {
        true => tensor.inner(),
        false => tensor,
    }
}

/// Refuses a device that records gradients, which there are none of.
pub(crate) fn check_inference(device: &Device) -> Result<(), Error> {
    if device.is_autodiff() {
        let what = "device of an FP8 layer for inference";
        return Err(ShapeError::new(what, "one that records no gradients", "autodiff").into());
    }
    Ok(())
}
