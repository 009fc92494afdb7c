//! Quantisation recorded for XLA.

use super::{AmaxCall, QuantizeCall, QuantizeOps, ScaledCodes, dtype};
use crate::ops::Scales;
use crate::ops::fp8::xla::{format, overflow};
use crate::ops::xla::{Recorded, Results};
use burn::backend::TensorMetadata;
use burn::backend::tensor::{FloatTensor, IntTensor};
use moebius_ops::quantize::Problem;
use moebius_ops::scaling::{self, ScaleType};
use moebius_xla::custom::Call;
use moebius_xla::custom::quantize::{Granularity, Quantize, Scaling};
use moebius_xla::{BackendRouter, RouterChannel, element};

/// The granularity as the descriptors have it.
pub(in crate::ops) fn granularity(granularity: scaling::Granularity) -> Granularity {
    match granularity {
        scaling::Granularity::Tensor => Granularity::Tensor,
        scaling::Granularity::Row => Granularity::Row,
        scaling::Granularity::Block { rows, columns } => Granularity::Block { rows, columns },
        scaling::Granularity::Mx => Granularity::Mx,
    }
}

fn scaling(problem: &Problem) -> Scaling {
    Scaling {
        shape: problem.shape(),
        granularity: granularity(problem.granularity()),
        format: format(problem.format()),
        overflow: overflow(problem.overflow()),
        margin: problem.margin(),
    }
}

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
        let of = Call::Quantize(Quantize::Codes(scaling(&call.problem)));
        let mut results = Results::<C>::of(&of, vec![x]);
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
        let call = Call::Quantize(Quantize::CodesBy(scaling(&call.problem)));
        Results::<C>::of(&call, vec![x, scales.into_tensor()]).take()
    }

    fn fp8_dequantize(
        words: IntTensor<Self>,
        scales: Scales<Self>,
        call: QuantizeCall,
    ) -> FloatTensor<Self> {
        let Some(element) = element(dtype(call.problem.element())) else {
            unreachable!("values are plain floats");
        };
        let call = Call::Quantize(Quantize::Values(scaling(&call.problem), element));
        Results::<C>::of(&call, vec![words, scales.into_tensor()]).take()
    }

    fn fp8_amax(x: FloatTensor<Self>, _call: AmaxCall) -> FloatTensor<Self> {
        let call = Call::Quantize(Quantize::Amax(x.shape().to_vec()));
        Results::<C>::of(&call, vec![x]).take()
    }

    fn fp8_fake_quantize(x: FloatTensor<Self>, call: QuantizeCall) -> FloatTensor<Self> {
        let call = Call::Quantize(Quantize::Rounded(scaling(&call.problem)));
        Results::<C>::of(&call, vec![x]).take()
    }

    fn fp8_fake_quantize_by(
        x: FloatTensor<Self>,
        scales: Scales<Self>,
        call: QuantizeCall,
    ) -> FloatTensor<Self> {
        let call = Call::Quantize(Quantize::RoundedBy(scaling(&call.problem)));
        Results::<C>::of(&call, vec![x, scales.into_tensor()]).take()
    }
}
