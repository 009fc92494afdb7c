//! FP8 codes and scales of a stack of matrices, and back; shapes as in
//! [`moebius_shaders::quantize`]. Scales are constants to autodiff, and so are codes: what a
//! recording device gets has no derivative, but for `fp8_fake_quantize`, whose gradient passes
//! straight through.

#[cfg(feature = "autodiff")]
mod autodiff;
#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "fusion")]
mod lazy;
#[cfg(feature = "xla")]
mod xla;

use super::Scales;
use crate::check::element;
use crate::{Error, device};
use burn::backend::Dispatch;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, ExtensionType, backend_extension};
use burn::tensor::{DType, Device, Int, Tensor};
use moebius_ops::Element;
use moebius_ops::quantize::{AmaxProblem, Problem};
use moebius_shaders::quantize;

/// Words and scales of x, which has the shape and dtype of `problem` and at least one value.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device lacks the dtype or x exceeds
/// a binding.
pub(crate) fn quantize(
    x: Tensor<3>,
    problem: Problem,
) -> Result<(Tensor<3, Int>, Scales<Dispatch>), Error> {
    let call = QuantizeCall::new(problem, &x.device())?;
    let coded = Dispatch::fp8_quantize(x.into_dispatch(), call);
    Ok((Tensor::from_dispatch(coded.words), coded.scales))
}

/// The words of x under scales that fit it.
///
/// # Errors
/// As [`quantize`].
pub(crate) fn quantize_by(
    x: Tensor<3>,
    scales: Scales<Dispatch>,
    problem: Problem,
) -> Result<Tensor<3, Int>, Error> {
    let call = QuantizeCall::new(problem, &x.device())?;
    let words = Dispatch::fp8_quantize_by(x.into_dispatch(), scales, call);
    Ok(Tensor::from_dispatch(words))
}

/// The values of words and scales that fit the problem.
///
/// # Errors
/// As [`quantize`].
pub(crate) fn dequantize(
    words: Tensor<3, Int>,
    scales: Scales<Dispatch>,
    problem: Problem,
) -> Result<Tensor<3>, Error> {
    let call = QuantizeCall::new(problem, &words.device())?;
    let y = Dispatch::fp8_dequantize(words.into_dispatch(), scales, call);
    Ok(Tensor::from_dispatch(y))
}

/// x as its codes have it, under its own scales or given ones; the gradient passes.
///
/// # Errors
/// As [`quantize`].
pub(crate) fn fake_quantize(
    x: Tensor<3>,
    scales: Option<Scales<Dispatch>>,
    problem: Problem,
) -> Result<Tensor<3>, Error> {
    let call = QuantizeCall::new(problem, &x.device())?;
    let x = x.into_dispatch();
    Ok(Tensor::from_dispatch(match scales {
        None => Dispatch::fp8_fake_quantize(x, call),
        Some(scales) => Dispatch::fp8_fake_quantize_by(x, scales, call),
    }))
}

/// The largest finite magnitude \[1\] of x, which isn't empty.
///
/// # Errors
/// As [`quantize`], and [`ErrorKind::Shape`](crate::ErrorKind::Shape) for anything but f32, f16 and bf16.
pub(crate) fn amax<const D: usize>(x: Tensor<D>) -> Result<Tensor<1>, Error> {
    let call = AmaxCall::new(x.shape().num_elements(), x.dtype(), &x.device())?;
    Ok(Tensor::from_dispatch(Dispatch::fp8_amax(
        x.into_dispatch(),
        call,
    )))
}

/// Checks that a device can hold `matrices` matrices like that of `one`.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when it can't.
pub(crate) fn check_kept(one: &Problem, matrices: usize, device: &Device) -> Result<(), Error> {
    device::plan(device, |device| quantize::check_kept(one, matrices, device))?;
    Ok(())
}

impl QuantizeCall {
    pub(super) fn new(problem: Problem, device: &Device) -> Result<Self, Error> {
        let plan = device::plan(device, |device| quantize::plan(problem, device))?;
        Ok(Self { problem, plan })
    }
}

impl AmaxCall {
    pub(super) fn new(len: usize, dtype: DType, device: &Device) -> Result<Self, Error> {
        let problem = AmaxProblem::new(len, element(dtype)?)?;
        let plan = device::plan(device, |device| quantize::plan_amax(problem, device))?;
        Ok(Self { plan })
    }
}

/// A quantisation, or its inverse.
#[derive(Clone, Debug)]
pub(crate) struct QuantizeCall {
    pub(crate) problem: moebius_ops::quantize::Problem,
    pub(crate) plan: Option<quantize::Plan>,
}

/// A largest magnitude.
#[derive(Clone, Debug)]
pub(crate) struct AmaxCall {
    pub(crate) plan: Option<quantize::AmaxPlan>,
}

/// Codes and scales.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct ScaledCodes<B: Backend> {
    /// \[M, rows, ⌈columns/4⌉\].
    pub(crate) words: IntTensor<B>,
    #[extension_type]
    pub(crate) scales: Scales<B>,
}

#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
    Autodiff: cfg(feature = "autodiff"),
)]
pub(crate) trait QuantizeOps: Backend {
    /// Scales that follow from x \[M, rows, columns\], and the codes.
    #[fusion(meta = lazy::quantized)]
    fn fp8_quantize(x: FloatTensor<Self>, call: QuantizeCall) -> ScaledCodes<Self>;

    /// \[M, rows, ⌈columns/4⌉\]: codes under given scales.
    #[fusion(meta = lazy::words)]
    fn fp8_quantize_by(
        x: FloatTensor<Self>,
        #[extension_type] scales: Scales<Self>,
        call: QuantizeCall,
    ) -> IntTensor<Self>;

    /// \[M, rows, columns\] of the problem's element type.
    #[fusion(meta = lazy::values)]
    fn fp8_dequantize(
        words: IntTensor<Self>,
        #[extension_type] scales: Scales<Self>,
        call: QuantizeCall,
    ) -> FloatTensor<Self>;

    /// \[1\] f32: the largest finite magnitude of any tensor.
    #[fusion(meta = lazy::amax)]
    fn fp8_amax(x: FloatTensor<Self>, call: AmaxCall) -> FloatTensor<Self>;

    /// x \[M, rows, columns\] as its codes have it.
    #[fusion(meta = lazy::faked)]
    fn fp8_fake_quantize(x: FloatTensor<Self>, call: QuantizeCall) -> FloatTensor<Self>;

    /// The same under given scales.
    #[fusion(meta = lazy::faked_by)]
    fn fp8_fake_quantize_by(
        x: FloatTensor<Self>,
        #[extension_type] scales: Scales<Self>,
        call: QuantizeCall,
    ) -> FloatTensor<Self>;
}

/// The dtype of an element type.
#[cfg(any(feature = "cube", feature = "flex", feature = "xla"))]
pub(super) fn dtype(element: Element) -> DType {
    match element {
        Element::F32 => DType::F32,
        Element::F16 => DType::F16,
        Element::Bf16 => DType::BF16,
    }
}
