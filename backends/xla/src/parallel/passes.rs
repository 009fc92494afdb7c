//! Programs of a layer's passes, wherever its experts are.

use super::Layer;
use super::layer::{Gradients, Routed, Weights};
use crate::stablehlo::{Builder, Program, ReplicaGroups, Value};
use moebius_ops::{Mismatch, experts};
use moebius_pjrt::TensorType;

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
    fn check(&self) -> Result<(), Mismatch>;

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

    /// The choice of experts.
    fn routed<'a>(&self, kept: &'a Self::Kept) -> &'a Routed;

    /// Further results: what the device knows of the exchange.
    fn report(&self, _kept: &Self::Kept) -> Vec<Value> {
        Vec::new()
    }

    /// The layer over the tokens of one device.
    fn local(&self) -> experts::Problem {
        self.layer().local(self.devices())
    }

    /// The type of a device's tokens.
    fn tokens(&self) -> TensorType {
        let local = self.local();
        let shape = [local.routing.tokens(), local.hidden];
        TensorType::new(shape, self.layer().element())
    }

    /// All devices.
    fn group(&self) -> ReplicaGroups {
        ReplicaGroups::all(self.devices())
    }
}

/// Arguments x, the bias of the choice where there is one, and the weights; results y, the choice if it is `told`, and
/// the report.
pub(super) fn forward<P: Passes>(placement: &P, told: bool) -> Result<Program, Mismatch> {
    placement.check()?;
    let b = Builder::new();
    let x = b.argument(placement.tokens());
    let (y, kept) = placement.forward(&b, x, &arguments(&b, placement));
    let mut outputs = vec![y];
    if told {
        let r = placement.routed(&kept);
        outputs.extend([r.indices, r.weights, r.probs, r.logits, r.lse, r.dropped]);
    }
    outputs.extend(placement.report(&kept));
    Ok(b.finish_replicated(&outputs, placement.devices()))
}

/// Arguments x, dy, the bias of the choice where there is one, and the weights; results y, dx, the weights' gradients and
/// the report.
pub(super) fn gradients<P: Passes>(placement: &P) -> Result<Program, Mismatch> {
    placement.check()?;
    let b = Builder::new();
    let rows = placement.tokens();
    let (x, dy) = (b.argument(rows.clone()), b.argument(rows));
    let weights = arguments(&b, placement);
    let (y, kept) = placement.forward(&b, x, &weights);
    let report = placement.report(&kept);
    let gradients = placement.backward(&b, [x, dy], &weights, kept);
    let outputs = [&[y, gradients.x], gradients.weights.as_slice(), &report].concat();
    Ok(b.finish_replicated(&outputs, placement.devices()))
}

fn arguments<P: Passes>(b: &Builder, placement: &P) -> Weights {
    let layer = placement.layer();
    let selection_bias = layer.bias().map(|ty| b.argument(ty));
    let types = layer.weights(placement.local_experts()).into_iter();
    let mut weights: Vec<Value> = types.map(|ty| b.argument(ty)).collect();
    Weights {
        selection_bias,
        stacks: weights.split_off(1),
        router: weights[0],
    }
}
