//! Products of FP8 codes as kernels.

use super::{Fp8MmaCall, Fp8MmaOps};
use crate::ops::buffers::{empty_like, handle};
use crate::ops::{CodedWeights, Scales};
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use moebius_shaders::checked;
use moebius_shaders::fp8_mma::{self, Operands};

impl Fp8MmaOps for CubeBackend {
    fn fp8_mma(
        words: CubeTensor,
        scales: Scales<Self>,
        weights: CodedWeights<Self>,
        call: Fp8MmaCall,
    ) -> CubeTensor {
        let client = words.client.clone();
        let p = &call.plan.problem.product;
        let y = empty_like(&words, [p.row_bound, p.n], DType::F32);
        let operands = Operands {
            x: handle(words),
            x_scales: scales.buffer(),
            segments: None,
            weights: handle(weights.codes),
            w_scales: weights.scales.buffer(),
            out: y.handle.clone(),
        };
        checked(&client, &[&y.handle], || {
            fp8_mma::launch(&client, &call.plan, &operands);
        });
        y
    }
}
