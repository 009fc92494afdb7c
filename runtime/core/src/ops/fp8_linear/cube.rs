//! Products with FP8 weights as kernels.

use super::{CodedWeights, Fp8LinearCall, Fp8LinearOps};
use crate::ops::Scales;
use crate::ops::buffers::{empty_like, handle, planned};
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::server::Handle;
use moebius_shaders::grouped_gemm::{self, Operands};

impl Scales<CubeBackend> {
    pub(in crate::ops) fn into_handle(self) -> Handle {
        match self {
            Self::F32(scales) | Self::E8M0(scales) => handle(scales),
        }
    }
}

impl Fp8LinearOps for CubeBackend {
    fn fp8_linear(x: CubeTensor, weights: CodedWeights<Self>, call: Fp8LinearCall) -> CubeTensor {
        let client = x.client.clone();
        let p = &call.problem;
        let y = empty_like(&x, [p.row_bound, p.n], x.dtype);
        let operands = Operands {
            x: handle(x),
            segments: None,
            weights: handle(weights.codes),
            scales: Some(weights.scales.into_handle()),
            bias: weights.bias.into_option().map(handle),
            out: y.handle.clone(),
        };
        grouped_gemm::launch(&client, &planned(call.plan), &operands);
        y
    }
}
