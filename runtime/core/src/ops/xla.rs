//! What the recorded calls of several families share.

use super::Mask;
use burn::backend::Backend;
use burn::backend::tensor::IntTensor;
use moebius_xla::{RouterChannel, RouterTensor, record};

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

/// Results of a call, taken one after the other.
pub(super) struct Results<C: RouterChannel>(std::vec::IntoIter<Recorded<C>>);

impl<C: RouterChannel> Results<C> {
    /// Records `call` on `inputs`, which the caller has checked.
    pub(super) fn of(call: &moebius_xla::custom::Call, inputs: Vec<Recorded<C>>) -> Self {
        let results = record(call, inputs);
        let results = results.unwrap_or_else(|error| unreachable!("a checked call: {error}"));
        Self(results.into_iter())
    }

    /// The next one.
    pub(super) fn take(&mut self) -> Recorded<C> {
        self.0
            .next()
            .unwrap_or_else(|| unreachable!("a call has the results of its descriptor"))
    }

    /// The next one if there is one by the descriptor.
    pub(super) fn take_if(&mut self, present: bool) -> Option<Recorded<C>> {
        present.then(|| self.take())
    }
}
