//! What the backward steps of every family share.

use burn::backend::Backend;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::tensor::FloatTensor;

use super::Maybe;

/// Adds a gradient that was computed to its parent's.
pub(super) fn register<B: Backend>(
    grads: &mut Gradients,
    parent: Option<NodeId>,
    gradient: Option<FloatTensor<B>>,
) {
    if let (Some(parent), Some(gradient)) = (parent, gradient) {
        grads.register::<B>(parent, gradient);
    }
}

impl<B: Backend> Maybe<B> {
    /// The values without the graph.
    pub(super) fn map<C: Backend>(
        self,
        f: impl FnOnce(FloatTensor<B>) -> FloatTensor<C>,
    ) -> Maybe<C> {
        match self {
            Self::Absent => Maybe::Absent,
            Self::Present(tensor) => Maybe::Present(f(tensor)),
        }
    }
}
