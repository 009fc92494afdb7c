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

pub(crate) use round::{Rounded, round};

use super::{Fp8Cast, Maybe};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

/// How a tensor is rounded.
#[derive(Clone, Debug)]
pub(crate) struct RoundCall {
    pub(crate) cast: Fp8Cast,
    pub(crate) margin: i32,
}

#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Fusion: cfg(feature = "fusion"),
    Autodiff: cfg(feature = "autodiff"),
)]
pub(crate) trait Fp8TrainOps: Backend {
    /// `rounded`; its gradient is that of x.
    #[fusion(meta = lazy::rounded)]
    fn fp8_straight_through(x: FloatTensor<Self>, rounded: FloatTensor<Self>) -> FloatTensor<Self>;

    /// x; its gradient dy is rounded with the scale \[1\], or one from its own amax. The gradient of
    /// `slot` \[1\] is the amax of dy.
    #[fusion(meta = lazy::passed)]
    fn fp8_round_gradient(
        x: FloatTensor<Self>,
        slot: FloatTensor<Self>,
        #[extension_type] scale: Maybe<Self>,
        call: RoundCall,
    ) -> FloatTensor<Self>;
}
