//! How likely a model thinks the tokens that came.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor};

/// The logarithm of the probability of each of `chosen` \[n\] by its row of `logits` \[n, classes\]: \[1, n\].
///
/// One row, because sums along an axis have an order, and a sum of everything adds atomically on some devices.
pub(crate) fn log_likelihoods<const D: usize>(
    logits: Tensor<2>,
    chosen: Tensor<D, Int>,
) -> Tensor<2> {
    let [rows, _] = logits.dims();
    let chosen = chosen.reshape([rows, 1]);
    log_softmax(logits, 1).gather(1, chosen).reshape([1, rows])
}

/// The mean cross entropy \[1\], in nats.
pub(crate) fn cross_entropy<const D: usize>(
    logits: Tensor<2>,
    chosen: Tensor<D, Int>,
) -> Tensor<1> {
    let mean = log_likelihoods(logits, chosen).mean_dim(1);
    mean.neg().reshape([1])
}
