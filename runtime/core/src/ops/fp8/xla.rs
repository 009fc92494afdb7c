//! FP8 casts recorded for XLA.

use super::{Fp8Cast, Fp8Ops};
use crate::ops::xla::Results;
use burn::backend::tensor::{FloatTensor, IntTensor};
use moebius_ops::fp8::{Fp8Format, Overflow};
use moebius_xla::custom::{Call, fp8};
use moebius_xla::{BackendRouter, RouterChannel};

/// The format as the descriptors have it.
pub(in crate::ops) fn format(format: Fp8Format) -> fp8::Format {
    match format {
        Fp8Format::E4M3 => fp8::Format::E4M3,
        Fp8Format::E5M2 => fp8::Format::E5M2,
    }
}

/// The overflow mode as the descriptors have it.
pub(in crate::ops) fn overflow(overflow: Overflow) -> fp8::Overflow {
    match overflow {
        Overflow::Saturate => fp8::Overflow::Saturate,
        Overflow::Ieee => fp8::Overflow::Ieee,
    }
}

impl<C: RouterChannel> Fp8Ops for BackendRouter<C> {
    fn fp8_encode(x: FloatTensor<Self>, call: Fp8Cast, mode: Overflow) -> IntTensor<Self> {
        let call = Call::Fp8(fp8::Cast::Encode {
            len: call.len,
            format: format(call.format),
            overflow: overflow(mode),
        });
        Results::<C>::of(&call, vec![x]).take()
    }

    fn fp8_decode(words: IntTensor<Self>, call: Fp8Cast) -> FloatTensor<Self> {
        let call = Call::Fp8(fp8::Cast::Decode {
            len: call.len,
            format: format(call.format),
        });
        Results::<C>::of(&call, vec![words]).take()
    }
}
