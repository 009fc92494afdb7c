//! In f32, where no gradients are recorded.

use super::Pairs;
use crate::ops::host::{Rows, float_tensor};
use burn::backend::{BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind};
use burn::nn::RmsNorm;
use burn::tensor::{DType, Tensor};
use moebius_host::fused::{self, Rotation};

/// A tensor's values on the host, one behind the other; `None` for those of other devices.
fn on_host<const D: usize>(tensor: &Tensor<D>) -> Option<Rows> {
    match tensor.clone().into_dispatch() {
        DispatchTensor {
            kind: DispatchTensorKind::Flex(BackendTensor::Float(values)),
            autodiff: DispatchAutodiffContext::Disabled,
        } if values.dtype() == DType::F32 => Some(values.to_contiguous()),
        _ => None,
    }
}

fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> Tensor<D> {
    let values = float_tensor(values, &shape);
    let tensor = DispatchTensor {
        kind: DispatchTensorKind::Flex(BackendTensor::Float(values)),
        autodiff: DispatchAutodiffContext::Disabled,
    };
    Tensor::from_dispatch(tensor)
}

pub(super) fn rms_norm<const D: usize>(x: &Tensor<D>, norm: &RmsNorm) -> Option<Tensor<D>> {
    let (values, gamma) = (on_host(x)?, on_host(&norm.gamma.val())?);
    let gamma: &[f32] = gamma.storage();
    if x.dims().last() != Some(&gamma.len()) {
        return None;
    }
    let y = fused::rms_norm(values.storage(), gamma, norm.epsilon as f32);
    Some(tensor(y, x.dims()))
}

pub(super) fn rotate(
    x: &Tensor<4>,
    [cos, sin]: &[Tensor<4>; 2],
    pairs: Pairs,
) -> Option<Tensor<4>> {
    let [b, s, heads, width] = x.dims();
    let [sequences, tokens, _, half] = cos.dims();
    let fits = [1, b].contains(&sequences) && tokens == s && pairs.at + 2 * half <= width;
    if !fits || sin.dims() != cos.dims() {
        return None;
    }
    let (values, cos, sin) = (on_host(x)?, on_host(cos)?, on_host(sin)?);
    let rotation = Rotation {
        tables: [cos.storage(), sin.storage()],
        tokens: sequences * s,
        half,
        heads: [heads, width],
        at: pairs.at,
        interleaved: pairs.interleaved,
    };
    let y = fused::rotate(values.storage(), &rotation);
    Some(tensor(y, x.dims()))
}
