//! What stands for [`SwitchedMixture`] in browsers, where no program can wait for the device to learn which experts tokens chose.

#![allow(
    unused_variables,
    reason = "the code that `Module` derives binds the field before code that can't be reached"
)]

use std::convert::Infallible;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use moebius::moe::switching::{CacheStatistics, ExpertSource};
use moebius::moe::{ChosenExperts, MoeLayer, Routing};
use moebius_ops::Fault;

use crate::error::Error;

/// A mixture of experts in host memory, of which a browser has none.
#[derive(Module, Debug)]
pub struct SwitchedMixture {
    #[module(skip)]
    none: Infallible,
}

impl SwitchedMixture {
    /// Refuses.
    ///
    /// # Errors
    /// [`Error::Moebius`], an unsupported computation.
    pub(super) fn new(
        _: MoeLayer,
        _: Option<Arc<dyn ExpertSource>>,
        _: u64,
        _: &Device,
    ) -> Result<Self, Error> {
        let what = "experts in host memory";
        let fault = Fault::Unsupported.error(what, "a device to wait for", "a browser's");
        Err(moebius::Error::from(fault).into())
    }

    /// Is never called.
    pub(super) fn forward(
        &self,
        _: Tensor<2>,
        _: Option<&ChosenExperts>,
        _: &mut dyn FnMut() -> Result<(), moebius::Error>,
    ) -> Result<(Tensor<2>, Routing), Error> {
        match self.none {}
    }

    /// Is never called.
    pub(super) fn expect(&self, _: impl FnOnce() -> Tensor<2>) -> Result<(), moebius::Error> {
        match self.none {}
    }

    /// Is never called.
    pub fn statistics(&self) -> CacheStatistics {
        match self.none {}
    }

    /// Is never called.
    pub fn places(&self) -> [usize; 2] {
        match self.none {}
    }
}
