//! How many tokens each expert of a model gets.

use burn::tensor::{Int, Tensor};
use moebius::moe::{LoadStatistics, Routing};
use serde::Serialize;

use crate::decoder::{FeedForwardSpec, ModelSpec};
use crate::error::Error;

/// The tokens of each expert, summed on the device over any number of forwards, up to 2³¹ − 1 each. Nothing is read back before
/// [`read`](Self::read).
#[derive(Clone, Debug)]
pub struct ExpertLoad {
    /// Numbers of the layers that have experts.
    layers: Vec<usize>,
    /// Sums of those layers; none before the first forward.
    sums: Vec<Tensor<1, Int>>,
}

/// What the experts of a layer got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerTokens {
    /// Number of the layer in the model.
    pub layer: usize,
    /// Tokens of each expert: a token that goes to k experts counts at each of them.
    pub tokens: Vec<u64>,
}

impl ExpertLoad {
    /// For forwards of the model that `spec` describes; `None` where no layer has experts.
    pub fn of(spec: &ModelSpec) -> Option<Self> {
        let layers = spec.layers.iter().enumerate();
        let mixed = layers
            .filter(|(_, layer)| matches!(layer.feed_forward, FeedForwardSpec::Experts(_)))
            .map(|(number, _)| number);
        let layers: Vec<usize> = mixed.collect();
        let sums = Vec::new();
        (!layers.is_empty()).then_some(Self { layers, sums })
    }

    /// Adds what a forward returned.
    ///
    /// # Errors
    /// [`Error::Config`] for the routing of other layers, [`Error::Moebius`] when the device can't count.
    pub fn add(&mut self, routing: &[Routing]) -> Result<(), Error> {
        let (expected, got) = (self.layers.len(), routing.len());
        Error::check(got == expected, "layers with experts", expected, got)?;
        let loads = routing.iter().map(Routing::load);
        let loads = loads.collect::<Result<Vec<_>, _>>()?;
        self.sums = if self.sums.is_empty() {
            loads
        } else {
            let sums = std::mem::take(&mut self.sums).into_iter().zip(loads);
            sums.map(|(sum, load)| sum + load).collect()
        };
        Ok(())
    }

    /// The sums of the layers that have experts; empty before the first forward. Waits for the device.
    ///
    /// # Errors
    /// [`Error::Moebius`] when the device failed.
    pub fn read(&self) -> Result<Vec<LayerTokens>, Error> {
        let sums = self.layers.iter().zip(&self.sums);
        let read = sums.map(|(&layer, sum)| {
            let tokens = LoadStatistics::read(sum.clone())?.counts;
            Ok(LayerTokens { layer, tokens })
        });
        read.collect()
    }
}
