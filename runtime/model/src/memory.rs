//! The memory that a step of a training takes, from the model's description alone.

use burn::tensor::Device;
use serde::Serialize;

use crate::config::TrainConfig;
use crate::decoder::{LayerSpec, ModelSpec, Slot};
use crate::error::NoRoomToTrain;

/// What a training does to take less of a device's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Savings {
    /// Layers are computed again for their gradients ([`Trainer::checkpoint_activations`](crate::Trainer::checkpoint_activations)).
    pub recomputes: bool,
    /// The optimizer's moments are elsewhere between steps ([`Trainer::keep_moments_in`](crate::Trainer::keep_moments_in)): in a file, or in
    /// a main memory that isn't the device's own.
    pub offloads: bool,
    /// Number of parameters of an adapter, which alone have gradients and moments then ([`Trainer::load_adapter`](crate::Trainer::load_adapter));
    /// `None` where all weights are trained.
    pub adapter: Option<u64>,
    /// Bytes of the model's own weights below an adapter, where they aren't f32
    /// ([`ModelFiles::weight_bytes`](crate::load::ModelFiles::weight_bytes)); `None` where they are.
    pub base: Option<u64>,
}

/// The memory that a step of a training takes: an estimate, for products in f32. All figures are bytes. In a step of several batches the sum
/// of their gradients is there, too, until the optimizer updates. Not counted is what an adapter's own products keep, and below an adapter what
/// experts keep between separate products.
///
/// | when | beside weights and moments |
/// |---|---|
/// | the backward pass begins | what layers keep, and what the head computes from the logits |
/// | it is in a layer | what layers keep or the gradients that there are, and what the layer's backward pass computes |
/// | gradients of a batch are added | gradients, and the largest parameter's sum |
/// | the optimizer updates | gradients or new weights, what the largest parameter's update computes, and two parameters' moments, if all are elsewhere between steps |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TrainMemory {
    /// The parameters, with those of an adapter.
    pub weights: u64,
    /// AdamW's two moments of each trained parameter, if they stay on the device.
    pub moments: u64,
    /// What the forward pass keeps for the backward pass: of all layers, or the inputs of all and the rest of one.
    pub kept: u64,
    /// The most at once.
    pub peak: u64,
}

impl TrainMemory {
    /// The percentage of a step's memory that must be free beyond it, unless a caller says otherwise.
    pub const MARGIN: u32 = 20;

    /// The memory of steps of `config` for a model on a device.
    pub fn new(spec: &ModelSpec, config: &TrainConfig, savings: Savings, device: &Device) -> Self {
        let tokens = (config.batch as u64).saturating_mul(config.sequence as u64);
        let bytes = |of_token: usize| (4 * of_token as u64).saturating_mul(tokens);
        let of_layers = |values: &dyn Fn(&LayerSpec) -> usize| -> Vec<u64> {
            let layers = spec.layers.iter();
            layers.map(|layer| bytes(values(layer))).collect()
        };
        let most =
            |values: &dyn Fn(&LayerSpec) -> usize| of_layers(values).into_iter().max().unwrap_or(0);
        let hidden = spec.hidden;
        let model = bytes_of(spec.parameters());
        let adapter = savings.adapter.map(|count| count.saturating_mul(4));
        let trained = adapter.unwrap_or(model);
        let moments = if savings.offloads {
            0
        } else {
            trained.saturating_mul(2)
        };
        let layer = most(&|layer| layer.kept(hidden));
        let inputs = bytes(hidden).saturating_mul(spec.layers.len() as u64);
        let all = of_layers(&|layer| layer.kept(hidden)).into_iter();
        let (waiting, kept) = if savings.recomputes {
            (inputs, inputs.saturating_add(layer))
        } else {
            let all = all.fold(0, u64::saturating_add);
            (all, all)
        };
        // Flex keeps the memory of a network's gradients for the next one.
        let keeps = moebius::largest_buffer(device).is_none();
        let passing = most(&|layer| layer.passing(hidden, !keeps));
        let spare = if keeps {
            most(&|layer| layer.network_gradients(hidden))
        } else {
            0
        };
        // The input of the norm, what it divides, and its output; the exponents of the softmax and two gradients of their size.
        let head = bytes(3 * hidden + 3 * spec.vocabulary);
        let of_layer = if savings.recomputes { layer } else { 0 };
        let sum = if config.accumulate > 1 { trained } else { 0 };
        let largest = largest(spec).min(trained);
        let of_batch = [
            waiting.saturating_add(head),
            of_layer
                .saturating_add(waiting.max(trained))
                .saturating_add(passing),
            trained.saturating_add(largest),
        ];
        let of_batch = of_batch.into_iter().fold(0, u64::max).saturating_add(sum);
        let of_update = of_update(trained, largest, savings.offloads);
        let most = of_batch.max(of_update).saturating_add(spare);
        let own = savings.base.unwrap_or(model);
        let weights = own.saturating_add(adapter.unwrap_or(0));
        Self {
            weights,
            moments,
            kept,
            peak: most.saturating_add(weights).saturating_add(moments),
        }
    }

    /// Checks that `margin` percent more than the peak are free on the device, before anything of the training is there. Before memory is
    /// refused, the device's pools give back what they keep without use.
    ///
    /// # Errors
    /// [`NoRoomToTrain`] for more bytes than are free. A device that doesn't tell ([`moebius::memory_free`]) passes.
    pub fn check(&self, margin: u32, device: &Device) -> Result<(), NoRoomToTrain> {
        let release = || moebius::release_memory(device).is_ok();
        self.check_free(margin, || moebius::memory_free(device), release)
    }

    /// As [`Self::check`], with what `free` tells, and what `release` gives back.
    fn check_free(
        &self,
        margin: u32,
        free: impl Fn() -> Option<u64>,
        release: impl FnOnce() -> bool,
    ) -> Result<(), NoRoomToTrain> {
        let more = u128::from(self.peak) * u128::from(margin) / 100;
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        let needed = self.peak.saturating_add(more);
        let fits = || match free() {
            Some(free) if needed > free => Err(NoRoomToTrain { needed, free }),
            _ => Ok(()),
        };
        fits().or_else(|refused| if release() { fits() } else { Err(refused) })
    }
}

/// The most bytes at once while the optimizer updates parameters of `trained` bytes, of which the largest has `largest`. Moments that are elsewhere
/// between steps are on the device for two parameters: one comes, and that before leaves.
fn of_update(trained: u64, largest: u64, offloads: bool) -> u64 {
    let moving = largest.saturating_mul(4).min(trained.saturating_mul(2));
    let update = trained.saturating_add(largest.saturating_mul(2));
    update.saturating_add(if offloads { moving } else { 0 })
}

/// Bytes of so many parameters in f32.
fn bytes_of(parameters: f64) -> u64 {
    // A cast to an integer saturates.
    (parameters as u64).saturating_mul(4)
}

/// Bytes of the largest parameter.
fn largest(spec: &ModelSpec) -> u64 {
    let places = Slot::places(spec).into_iter();
    let sizes = places.map(|place| {
        let shape = place.shape(spec);
        bytes_of(shape.iter().map(|&extent| extent as f64).product())
    });
    sizes.max().unwrap_or(0)
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "memory_tests.rs"]
mod tests;
