//! Products with FP8 weights as kernels.

use super::{CodedWeights, Fp8LinearCall, Fp8LinearOps};
use crate::ops::Grouping;
use crate::ops::buffers::{empty_like, handle, planned};
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use moebius_shaders::checked;
use moebius_shaders::grouped_gemm::{self, Operands};

impl Fp8LinearOps for CubeBackend {
    fn fp8_linear(
        x: CubeTensor,
        weights: CodedWeights<Self>,
        grouping: Grouping<Self>,
        call: Fp8LinearCall,
    ) -> CubeTensor {
        let client = x.client.clone();
        let p = &call.problem;
        let y = empty_like(&x, [p.row_bound, p.n], x.dtype);
        let operands = Operands {
            x: handle(x),
            segments: grouping.segments(),
            weights: handle(weights.codes),
            scales: Some(weights.scales.buffer()),
            bias: weights.bias.into_option().map(handle),
            out: y.handle.clone(),
        };
        checked(&client, &[&y.handle], || {
            grouped_gemm::launch(&client, &planned(call.plan), &operands);
        });
        y
    }
}
