//! Quantisation under autodiff: codes, scales and values of codes are constants; the gradient of
//! a fake quantisation is that of the identity.

use super::{AmaxCall, QuantizeCall, QuantizeOps, ScaledCodes};
use crate::ops::Scales;
use crate::ops::graph::register;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, NodeGuard, Ops, OpsKind};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, AutodiffBackend, Backend};

impl<B: Backend, C: CheckpointStrategy> Scales<Autodiff<B, C>> {
    /// The same scales for the backend that computes.
    pub(crate) fn without_autodiff(self) -> Scales<B> {
        match self {
            Self::F32(scales) => Scales::F32(scales.into_primitive()),
            Self::E8M0(words) => Scales::E8M0(words),
        }
    }
}

impl<B: Backend> Scales<B> {
    /// The same scales for the recording backend.
    pub(crate) fn under_autodiff<C: CheckpointStrategy>(self) -> Scales<Autodiff<B, C>> {
        match self {
            Self::F32(scales) => Scales::F32(Autodiff::<B, C>::from_inner(scales)),
            Self::E8M0(words) => Scales::E8M0(words),
        }
    }
}

/// Straight through: what saturates gets a gradient, too.
#[derive(Debug)]
struct StraightThrough;

impl<B: Backend> Backward<B, 1> for StraightThrough {
    type State = ();

    fn backward(self, ops: Ops<(), 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        let [parent] = ops.parents;
        register::<B>(grads, parent.map(|node| node.id), Some(dy));
    }
}

fn straight_through<B: Backend, C: CheckpointStrategy>(
    node: NodeGuard,
    y: FloatTensor<B>,
) -> FloatTensor<Autodiff<B, C>> {
    let step = StraightThrough.prepare::<C>([node]);
    match step.compute_bound().stateful() {
        OpsKind::Tracked(step) => step.finish((), y),
        OpsKind::UnTracked(step) => step.finish(y),
    }
}

impl<B: QuantizeOps, C: CheckpointStrategy> QuantizeOps for Autodiff<B, C> {
    fn fp8_quantize(x: FloatTensor<Self>, call: QuantizeCall) -> ScaledCodes<Self> {
        let ScaledCodes { words, scales } = B::fp8_quantize(x.into_primitive(), call);
        ScaledCodes {
            words,
            scales: scales.under_autodiff(),
        }
    }

    fn fp8_quantize_by(
        x: FloatTensor<Self>,
        scales: Scales<Self>,
        call: QuantizeCall,
    ) -> IntTensor<Self> {
        B::fp8_quantize_by(x.into_primitive(), scales.without_autodiff(), call)
    }

    fn fp8_dequantize(
        words: IntTensor<Self>,
        scales: Scales<Self>,
        call: QuantizeCall,
    ) -> FloatTensor<Self> {
        Self::from_inner(B::fp8_dequantize(words, scales.without_autodiff(), call))
    }

    fn fp8_amax(x: FloatTensor<Self>, call: AmaxCall) -> FloatTensor<Self> {
        Self::from_inner(B::fp8_amax(x.into_primitive(), call))
    }

    fn fp8_fake_quantize(x: FloatTensor<Self>, call: QuantizeCall) -> FloatTensor<Self> {
        let (x, node) = x.into_parts();
        straight_through::<B, C>(node, B::fp8_fake_quantize(x, call))
    }

    fn fp8_fake_quantize_by(
        x: FloatTensor<Self>,
        scales: Scales<Self>,
        call: QuantizeCall,
    ) -> FloatTensor<Self> {
        let (x, node) = x.into_parts();
        let y = B::fp8_fake_quantize_by(x, scales.without_autodiff(), call);
        straight_through::<B, C>(node, y)
    }
}
