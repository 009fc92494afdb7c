//! What other devices' compilers make one kernel of, and Flex computes in one pass here: on Flex every operation of Burn writes a tensor of its own.

use burn::nn::RmsNorm;
use burn::tensor::Tensor;

/// x / √(mean(x²) + ε) · γ over the last dimension.
pub(crate) fn rms_norm<const D: usize>(x: Tensor<D>, norm: &RmsNorm) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if let Some(y) = flex::rms_norm(&x, norm) {
        return y;
    }
    norm.forward(x)
}

/// As [`crate::nn::rotate`].
pub(crate) fn rotate(x: Tensor<4>, tables: [Tensor<4>; 2], pairs: Pairs) -> Tensor<4> {
    #[cfg(feature = "flex")]
    if let Some(y) = flex::rotate(&x, &tables, pairs) {
        return y;
    }
    let [b, s, heads, width] = x.dims();
    let Pairs { at, interleaved } = pairs;
    let [cos, sin] = tables;
    let half = cos.dims()[3];
    let [left, right] = if interleaved {
        let pairs = x.clone().narrow(3, at, 2 * half);
        let pairs = pairs.reshape([b, s, heads, half, 2]);
        [0, 1].map(|side| {
            let side = pairs.clone().narrow(4, side, 1);
            side.reshape([b, s, heads, half])
        })
    } else {
        [at, at + half].map(|from| x.clone().narrow(3, from, half))
    };
    let turned = [
        left.clone() * cos.clone() - right.clone() * sin.clone(),
        right * cos + left * sin,
    ];
    let end = at + 2 * half;
    let before = (at > 0).then(|| x.clone().narrow(3, 0, at));
    let after = (end < width).then(|| x.narrow(3, end, width - end));
    let parts = before.into_iter().chain(turned).chain(after);
    Tensor::cat(parts.collect(), 3)
}

/// Which elements of a head are turned together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairs {
    /// The first element that is turned.
    pub at: usize,
    /// Pairs are neighbours; otherwise element i and the one half of the turned ones further on.
    pub interleaved: bool,
}

#[cfg(feature = "flex")]
mod flex {
    //! In f32, where no gradients are recorded.

    use super::Pairs;
    use crate::ops::host::{Rows, float_tensor};
    use burn::backend::{
        BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind,
    };
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
}

#[cfg(test)]
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod tests;
