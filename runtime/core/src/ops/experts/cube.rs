//! STUB

use super::{
    ExpertGradients, ExpertWeights, ExpertsCall, ExpertsGradients, ExpertsOps, Forward, Needs,
    Trained,
};
use crate::ops::Sorted;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

impl ExpertsOps for CubeBackend {
    fn moe_experts(
        _: CubeTensor,
        _: CubeTensor,
        _: Sorted<Self>,
        _: ExpertWeights<Self>,
        _: ExpertsCall,
    ) -> CubeTensor {
        todo!()
    }
}
impl ExpertsGradients for CubeBackend {
    fn moe_experts_keeping(
        _: CubeTensor,
        _: CubeTensor,
        _: Sorted<Self>,
        _: ExpertWeights<Self>,
        _: ExpertsCall,
    ) -> Trained<Self> {
        todo!()
    }
    fn moe_experts_backward(
        _: CubeTensor,
        _: Forward<Self>,
        _: Needs,
        _: ExpertsCall,
    ) -> ExpertGradients<Self> {
        todo!()
    }
}
