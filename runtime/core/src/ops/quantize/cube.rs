//! Quantisation as kernels.

use super::{AmaxCall, QuantizeCall, QuantizeOps, ScaledCodes, dtype};
use crate::ops::Scales;
use crate::ops::buffers::{empty_like, handle, planned};
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::server::Handle;
use moebius_ops::scaling::ScaleType;
use moebius_shaders::checked;
use moebius_shaders::quantize;

impl Scales<CubeBackend> {
    /// The buffer, whatever it holds.
    pub(crate) fn buffer(self) -> Handle {
        match self {
            Self::F32(scales) | Self::E8M0(scales) => handle(scales),
        }
    }
}

impl QuantizeOps for CubeBackend {
    fn fp8_quantize(x: CubeTensor, call: QuantizeCall) -> ScaledCodes<Self> {
        let client = x.client.clone();
        let p = &call.problem;
        let words = empty_like(&x, p.words_shape(), DType::I32);
        let (buffer, scales) = match p.granularity().scale_type() {
            ScaleType::F32 => {
                let scales = empty_like(&x, p.scales_shape(), DType::F32);
                (scales.handle.clone(), Scales::F32(scales))
            }
            ScaleType::E8M0 => {
                let scales = empty_like(&x, p.scales_shape(), DType::I32);
                (scales.handle.clone(), Scales::E8M0(scales))
            }
        };
        let buffers = quantize::Buffers {
            x: handle(x),
            words: words.handle.clone(),
            scales: buffer,
        };
        let scales_buffer = buffers.scales.clone();
        checked(&client, &[&words.handle, &scales_buffer], || {
            quantize::launch(&client, &planned(call.plan), buffers);
        });
        ScaledCodes { words, scales }
    }

    fn fp8_quantize_by(x: CubeTensor, scales: Scales<Self>, call: QuantizeCall) -> CubeTensor {
        let client = x.client.clone();
        let words = empty_like(&x, call.problem.words_shape(), DType::I32);
        let (plan, out) = (planned(call.plan), words.handle.clone());
        checked(&client, &[&words.handle], || {
            quantize::launch_by(&client, &plan, handle(x), scales.buffer(), out);
        });
        words
    }

    fn fp8_dequantize(words: CubeTensor, scales: Scales<Self>, call: QuantizeCall) -> CubeTensor {
        let client = words.client.clone();
        let p = &call.problem;
        let y = empty_like(&words, p.shape(), dtype(p.element()));
        let (plan, out) = (planned(call.plan), y.handle.clone());
        checked(&client, &[&y.handle], || {
            quantize::launch_dequantize(&client, &plan, handle(words), scales.buffer(), out);
        });
        y
    }

    fn fp8_amax(x: CubeTensor, call: AmaxCall) -> CubeTensor {
        let client = x.client.clone();
        let amax = empty_like(&x, [1], DType::F32);
        checked(&client, &[&amax.handle], || {
            quantize::launch_amax(&client, &planned(call.plan), handle(x), amax.handle.clone());
        });
        amax
    }

    // A kernel of both halves would save the words, 2 bytes of 10 for each f32, and read as much
    // of x.
    fn fp8_fake_quantize(x: CubeTensor, call: QuantizeCall) -> CubeTensor {
        let ScaledCodes { words, scales } = Self::fp8_quantize(x, call.clone());
        Self::fp8_dequantize(words, scales, call)
    }

    fn fp8_fake_quantize_by(x: CubeTensor, scales: Scales<Self>, call: QuantizeCall) -> CubeTensor {
        let words = Self::fp8_quantize_by(x, scales.clone(), call.clone());
        Self::fp8_dequantize(words, scales, call)
    }
}
