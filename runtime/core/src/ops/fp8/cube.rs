//! FP8 casts as kernels.

use super::{Fp8Cast, Fp8Ops};
use crate::ops::buffers::{empty_like, handle, planned};
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use moebius_shaders::checked;
use moebius_shaders::fp8;

impl Fp8Ops for CubeBackend {
    fn fp8_encode(
        x: CubeTensor,
        call: Fp8Cast,
        overflow: moebius_ops::fp8::Overflow,
    ) -> CubeTensor {
        let words = empty_like(&x, [call.problem.words()], DType::I32);
        let client = x.client.clone();
        let (plan, out) = (planned(call.plan), words.handle.clone());
        checked(&client, &[&words.handle], || {
            fp8::launch_encode(&client, &plan, overflow, handle(x), out);
        });
        words
    }

    fn fp8_decode(words: CubeTensor, call: Fp8Cast) -> CubeTensor {
        let y = empty_like(&words, [call.problem.len()], DType::F32);
        let client = words.client.clone();
        let (plan, out) = (planned(call.plan), y.handle.clone());
        checked(&client, &[&y.handle], || {
            fp8::launch_decode(&client, &plan, handle(words), out);
        });
        y
    }
}
