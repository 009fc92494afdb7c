//! STUB

use super::{CombineGradients, NeighboursCall, RowsCall, RowsGradients, RowsOps};
use crate::ops::{Maybe, Sorted};
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

impl RowsOps for CubeBackend {
    fn moe_gather(_: CubeTensor, _: Sorted<Self>, _: RowsCall) -> CubeTensor {
        todo!()
    }
    fn moe_combine(_: CubeTensor, _: Maybe<Self>, _: Sorted<Self>, _: RowsCall) -> CubeTensor {
        todo!()
    }
    fn moe_neighbours(_: CubeTensor, _: Sorted<Self>, _: NeighboursCall) -> CubeTensor {
        todo!()
    }
}
impl RowsGradients for CubeBackend {
    fn moe_combine_backward(
        _: CubeTensor,
        _: CubeTensor,
        _: CubeTensor,
        _: Sorted<Self>,
        _: RowsCall,
    ) -> CombineGradients<Self> {
        todo!()
    }
    fn moe_neighbours_backward(_: CubeTensor, _: Sorted<Self>, _: NeighboursCall) -> CubeTensor {
        todo!()
    }
}
