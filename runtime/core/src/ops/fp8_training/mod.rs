//! The two casts of a product that trains in FP8: values are rounded on the way forward and their
//! gradients pass, or values pass and their gradients are rounded on the way back.

#[cfg(feature = "autodiff")]
mod autodiff;
#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "fusion")]
mod lazy;
mod round;
#[cfg(feature = "xla")]
mod xla;

pub(crate) use round::{Rounded, round};

use super::{AmaxCall, Maybe, QuantizeCall};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

/// How a tensor is rounded.
#[derive(Clone, Debug)]
pub(crate) struct RoundCall {
    pub(crate) quantize: QuantizeCall,
    pub(crate) amax: AmaxCall,
}

#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
    Autodiff: cfg(feature = "autodiff"),
)]
pub(crate) trait Fp8TrainOps: Backend {
    /// `rounded`; its gradient is that of x.
    #[fusion(meta = lazy::rounded)]
    fn fp8_straight_through(x: FloatTensor<Self>, rounded: FloatTensor<Self>) -> FloatTensor<Self>;

    /// x; its gradient dy is rounded with the scale \[1\], or one from its own amax. With a scale,
    /// the gradient of `slot` \[1\] is the amax of dy: nothing else gets out of a backward pass.
    #[fusion(meta = lazy::passed)]
    fn fp8_round_gradient(
        x: FloatTensor<Self>,
        slot: FloatTensor<Self>,
        #[extension_type] scale: Maybe<Self>,
        call: RoundCall,
    ) -> FloatTensor<Self>;
}
