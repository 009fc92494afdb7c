//! What the recorded calls of several families share.

use super::Mask;
use super::results::Results;
use burn::backend::Backend;
use burn::backend::tensor::IntTensor;
use moebius_ops::Operation;
use moebius_xla::{RouterChannel, RouterTensor};

impl<B: Backend> Mask<B> {
    /// The words; none for all experts.
    pub(super) fn into_option(self) -> Option<IntTensor<B>> {
        match self {
            Self::All => None,
            Self::Only(mask) => Some(mask),
        }
    }
}

/// A tensor of a router, of any kind.
pub(super) type Recorded<C> = RouterTensor<<C as RouterChannel>::Client>;

/// Records `operation` on `inputs`, which the caller has checked.
pub(super) fn record<C: RouterChannel>(
    operation: impl Into<Operation>,
    inputs: Vec<Recorded<C>>,
) -> Results<Recorded<C>> {
    let results = moebius_xla::record(&operation.into(), inputs);
    Results::new(results.unwrap_or_else(|error| unreachable!("a checked call: {error}")))
}
