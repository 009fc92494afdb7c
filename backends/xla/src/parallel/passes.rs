//! Programs of a layer's passes, wherever its experts are.

use super::layer::{Gradients, Weights};
use super::{Layer, LayerError};
use crate::stablehlo::{Builder, Program, ReplicaGroups, Value};

/// A layer over devices.
pub(super) trait Passes {
    /// What the forward pass leaves for the backward pass.
    type Kept;

    /// The layer, over all tokens.
    fn layer(&self) -> &Layer;

    /// Devices P.
    fn devices(&self) -> usize;

    /// Experts that each device has.
    fn local_experts(&self) -> usize;

    /// Whether the devices can share the layer.
    fn check(&self) -> Result<(), LayerError>;

    /// y \[T/P,H\].
    fn forward(&self, b: &Builder, x: Value, weights: &Weights) -> (Value, Self::Kept);

    /// Gradients through those of y, for x and dy \[T/P,H\].
    fn backward(
        &self,
        b: &Builder,
        inputs: [Value; 2],
        weights: &Weights,
        kept: Self::Kept,
    ) -> Gradients;

    /// Further results: what the device knows of the exchange.
    fn report(&self, _kept: &Self::Kept) -> Vec<Value> {
        Vec::new()
    }

    /// The layer over the tokens of one device.
    fn local(&self) -> Layer {
        let layer = self.layer();
        Layer {
            tokens: layer.tokens / self.devices(),
            ..*layer
        }
    }

    /// All devices.
    fn group(&self) -> ReplicaGroups {
        ReplicaGroups::all(self.devices())
    }
}

/// Arguments x and the weights; results y and the report.
pub(super) fn forward<P: Passes>(placement: &P) -> Result<Program, LayerError> {
    placement.check()?;
    let b = Builder::new();
    let x = b.argument(placement.local().rows());
    let (y, kept) = placement.forward(&b, x, &arguments(&b, placement));
    let outputs = [&[y], placement.report(&kept).as_slice()].concat();
    Ok(b.finish_replicated(&outputs, placement.devices()))
}

/// Arguments x, dy and the weights; results y, dx, the weights' gradients and the report.
pub(super) fn gradients<P: Passes>(placement: &P) -> Result<Program, LayerError> {
    placement.check()?;
    let b = Builder::new();
    let rows = placement.local().rows();
    let (x, dy) = (b.argument(rows.clone()), b.argument(rows));
    let weights = arguments(&b, placement);
    let (y, kept) = placement.forward(&b, x, &weights);
    let report = placement.report(&kept);
    let gradients = placement.backward(&b, [x, dy], &weights, kept);
    let outputs = [&[y, gradients.x], gradients.weights.as_slice(), &report].concat();
    Ok(b.finish_replicated(&outputs, placement.devices()))
}

fn arguments<P: Passes>(b: &Builder, placement: &P) -> Weights {
    let types = placement.layer().weights(placement.local_experts());
    Weights::of(types.into_iter().map(|ty| b.argument(ty)).collect())
}
