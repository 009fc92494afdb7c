//! A mixture whose experts wait in host memory or in files until tokens need them.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use moebius::moe::switching::{CacheStatistics, ExpertSource, HostLayer, SwitchedExperts};
use moebius::moe::{ChosenExperts, MoeLayer, Routing};
use moebius_ops::Fault;

use crate::error::Error;

/// A mixture of experts for inference, of which a fixed number of experts is on the device at once
/// ([`moebius::moe::switching`]). Copies share the places, so that one thread at a time may compute with them; records have none of the
/// weights.
#[derive(Module, Debug)]
pub struct SwitchedMixture {
    #[module(skip)]
    experts: Arc<Mutex<SwitchedExperts>>,
    /// Experts that files are told of ahead of a computation.
    #[module(skip)]
    most: usize,
}

impl SwitchedMixture {
    /// Makes places for experts in `bytes` bytes of `device`, where the layer's other parts stay. The experts are those that `source` reads; without
    /// one, those of `layer` move to host memory.
    ///
    /// # Errors
    /// [`Error::Moebius`] with the errors of [`HostLayer::read`] and [`HostLayer::switched`]; one is fewer bytes than two experts take.
    pub(super) fn new(
        layer: MoeLayer,
        source: Option<Arc<dyn ExpertSource>>,
        bytes: u64,
        device: &Device,
    ) -> Result<Self, Error> {
        // Experts that a token may have: more are no more likely to be needed at the next token than any others.
        let most = layer.config().top_k();
        let host = match source {
            Some(source) => HostLayer::in_files(layer, source, device),
            None => HostLayer::read(layer)?,
        };
        let experts = host.switched(bytes, device)?;
        Ok(Self {
            experts: Arc::new(Mutex::new(experts)),
            most,
        })
    }

    /// Computes y \[T, H\] from x \[T, H\], and returns the experts that the tokens went to: those of `along`, if it is given. Waits for the
    /// device once, and calls `then` once all experts are there.
    ///
    /// # Errors
    /// [`Error::Moebius`] while another thread computes with the same places, and with the errors of [`SwitchedExperts::forward_then`].
    pub(super) fn forward(
        &self,
        x: Tensor<2>,
        along: Option<&ChosenExperts>,
        then: &mut dyn FnMut() -> Result<(), moebius::Error>,
    ) -> Result<(Tensor<2>, Routing), Error> {
        let mut experts = match self.experts.try_lock() {
            Ok(experts) => experts,
            // A place whose expert was being moved at a panic counts as empty.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // A worker of Flex that waited here could be the one whose part of an operation the computation under way waits for.
            Err(TryLockError::WouldBlock) => {
                let what = "computations with experts in host memory";
                let fault = Fault::State.error(what, "one at a time", "another beside it");
                return Err(moebius::Error::from(fault).into());
            }
        };
        let out = experts.forward_then(x, along, then)?;
        Ok((out.y, out.routing))
    }

    /// Tells the files of experts which ones the input of `x` would be routed to; asks for it only where there are files, and no other thread
    /// computes with the same places.
    ///
    /// # Errors
    /// The errors of [`SwitchedExperts::expect`].
    pub(super) fn expect(&self, x: impl FnOnce() -> Tensor<2>) -> Result<(), moebius::Error> {
        match self.experts.try_lock() {
            Ok(experts) if experts.is_in_files() => experts.expect(x(), self.most),
            _ => Ok(()),
        }
    }

    /// Statistics of the moves since the layer was made; waits for a computation under way.
    pub fn statistics(&self) -> CacheStatistics {
        let experts = self.experts.lock().unwrap_or_else(PoisonError::into_inner);
        experts.cache().statistics()
    }

    /// The number of experts that have places on the device at once, and of all experts; waits for a computation under way.
    pub fn places(&self) -> [usize; 2] {
        let experts = self.experts.lock().unwrap_or_else(PoisonError::into_inner);
        [experts.cache().places(), experts.config().experts]
    }
}

#[cfg(test)]
#[cfg(feature = "flex")]
mod tests {
    use super::*;
    use moebius::moe::MoeConfig;

    #[test]
    fn a_second_computation_is_refused() {
        let device = moebius::open(&moebius::Device::Flex).unwrap();
        let layer = MoeConfig::new(8, 8, 4).init(&device).unwrap();
        let mixture = SwitchedMixture::new(layer, None, 1 << 20, &device).unwrap();
        let x = Tensor::<2>::ones([3, 8], &device);
        let copy = mixture.clone();
        let under_way = mixture.experts.lock().unwrap();
        let said = copy
            .forward(x.clone(), None, &mut || Ok(()))
            .unwrap_err()
            .to_string();
        assert!(said.contains("expected one at a time"), "{said}");
        drop(under_way);
        let (y, _) = copy.forward(x, None, &mut || Ok(())).unwrap();
        assert_eq!(y.dims(), [3, 8]);
        assert!(mixture.statistics().misses > 0);
    }
}
