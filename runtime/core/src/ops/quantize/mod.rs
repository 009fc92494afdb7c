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
pub(super) mod xla;

use super::Scales;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, ExtensionType, backend_extension};
use burn::tensor::DType;
use moebius_shaders::{Element, quantize};

/// A quantisation, or its inverse.
#[derive(Clone, Debug)]
pub(crate) struct QuantizeCall {
    pub(crate) problem: quantize::Problem,
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
fn dtype(element: Element) -> DType {
    match element {
        Element::F32 => DType::F32,
        Element::F16 => DType::F16,
        Element::Bf16 => DType::BF16,
    }
}
