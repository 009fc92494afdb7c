//! STUB

use super::{LinearCall, LinearGradientOps, LinearGradients, LinearOps, Needs};
use crate::ops::{Maybe, Sorted};
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

impl LinearOps for CubeBackend {
    fn moe_grouped_linear(
        _: CubeTensor,
        _: CubeTensor,
        _: Maybe<Self>,
        _: Sorted<Self>,
        _: LinearCall,
    ) -> CubeTensor {
        todo!()
    }
}
impl LinearGradientOps for CubeBackend {
    fn moe_grouped_linear_backward(
        _: CubeTensor,
        _: CubeTensor,
        _: CubeTensor,
        _: Sorted<Self>,
        _: Needs,
        _: LinearCall,
    ) -> LinearGradients<Self> {
        todo!()
    }
}
