//! Quantisation recorded for XLA.

use super::{AmaxCall, QuantizeCall, QuantizeOps, ScaledCodes};
use crate::check::element;
use crate::ops::Scales;
use crate::ops::xla::{Recorded, record};
use burn::backend::TensorMetadata;
use burn::backend::tensor::{FloatTensor, IntTensor};
use moebius_ops::Quantization;
use moebius_ops::scaling::ScaleType;
use moebius_xla::{BackendRouter, RouterChannel};

impl<C: RouterChannel> Scales<BackendRouter<C>> {
    /// The tensor, whatever it holds.
    pub(in crate::ops) fn into_tensor(self) -> Recorded<C> {
        match self {
            Self::F32(scales) | Self::E8M0(scales) => scales,
        }
    }
}

impl<C: RouterChannel> QuantizeOps for BackendRouter<C> {
    fn fp8_quantize(x: FloatTensor<Self>, call: QuantizeCall) -> ScaledCodes<Self> {
        let mut results = record::<C>(Quantization::Quantize(call.problem), vec![x]);
        let (words, scales) = (results.take(), results.take());
        ScaledCodes {
            words,
            scales: match call.problem.granularity().scale_type() {
                ScaleType::F32 => Scales::F32(scales),
                ScaleType::E8M0 => Scales::E8M0(scales),
            },
        }
    }

    fn fp8_quantize_by(
        x: FloatTensor<Self>,
        scales: Scales<Self>,
        call: QuantizeCall,
    ) -> IntTensor<Self> {
        let call = Quantization::QuantizeBy(call.problem);
        record::<C>(call, vec![x, scales.into_tensor()]).take()
    }

    fn fp8_dequantize(
        words: IntTensor<Self>,
        scales: Scales<Self>,
        call: QuantizeCall,
    ) -> FloatTensor<Self> {
        let call = Quantization::Dequantize(call.problem);
        record::<C>(call, vec![words, scales.into_tensor()]).take()
    }

    fn fp8_amax(x: FloatTensor<Self>, _call: AmaxCall) -> FloatTensor<Self> {
        let element = element(x.dtype());
        let call = Quantization::Amax {
            shape: x.shape().to_vec(),
            element: element.unwrap_or_else(|error| unreachable!("a checked call: {error}")),
        };
        record::<C>(call, vec![x]).take()
    }

    fn fp8_fake_quantize(x: FloatTensor<Self>, call: QuantizeCall) -> FloatTensor<Self> {
        let call = Quantization::FakeQuantize(call.problem);
        record::<C>(call, vec![x]).take()
    }

    fn fp8_fake_quantize_by(
        x: FloatTensor<Self>,
        scales: Scales<Self>,
        call: QuantizeCall,
    ) -> FloatTensor<Self> {
        let call = Quantization::FakeQuantizeBy(call.problem);
        record::<C>(call, vec![x, scales.into_tensor()]).take()
    }
}
