//! Products of FP8 codes by matrix instructions; shapes as in [`moebius_shaders::fp8_mma`]. Only
//! CubeCL devices can have them, and they have no derivative.

mod cube;
#[cfg(feature = "fusion")]
mod lazy;

use super::{CodedWeights, Scales};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};
use moebius_shaders::fp8_mma::Plan;

/// A planned product.
#[derive(Clone, Debug)]
pub(crate) struct Fp8MmaCall {
    pub(crate) plan: Plan,
}

#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
pub(crate) trait Fp8MmaOps: Backend {
    /// y \[m, n\] f32 of the words and scales of x \[m, k\]; the weights have no bias.
    #[fusion(meta = lazy::output)]
    fn fp8_mma(
        words: IntTensor<Self>,
        #[extension_type] scales: Scales<Self>,
        #[extension_type] weights: CodedWeights<Self>,
        call: Fp8MmaCall,
    ) -> FloatTensor<Self>;
}
