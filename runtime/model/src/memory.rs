//! The memory that a step of a training takes, from the model's description alone.

use burn::tensor::Device;
use moebius::fp8::training::MomentStore;
use moebius::nn::decodes_weights;
use serde::Serialize;

use crate::config::TrainConfig;
use crate::decoder::{LayerSpec, ModelSpec, Slot};
use crate::error::NoRoomToTrain;
use crate::load::BaseWeights;

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

/// The memory that a step of a training takes: an estimate, for products in f32 or bf16. All figures are bytes. In a step of several batches the sum
/// of their gradients is there, too, until the optimizer updates; so is, on XLA, the largest matrix of codes below an adapter, as values. Not
/// counted is what an adapter's own products keep, and below an adapter what experts keep between separate products.
///
/// With products in bf16 what layers keep is bf16 but for norms and the choice of experts, which reads a copy of x in f32; copies in bf16 of the
/// trained parameters are there during the passes (of one layer and the head where layers are computed again), and what a backward pass computes
/// counts as f32.
///
/// | when | beside weights and moments |
/// |---|---|
/// | the backward pass begins | what layers keep, and what the head computes from the logits |
/// | it is in a layer | what this layer and those before it keep, the gradients of its network and of all after it, and what its backward pass computes |
/// | gradients of a batch are added | gradients, and the largest parameter's sum |
/// | the optimizer updates | gradients or new weights, what the largest parameter's update computes, and two parameters' moments, if all are elsewhere between steps |
///
/// A file of moments takes some main memory all along ([`MomentStore::read_ahead`]), and in the update that of a third parameter's moments, which
/// are being written. Both count on Flex, which computes there; CubeCL's `cpu` leaves them to the margin, and memory of a device's own has neither.
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
        let pass = BackwardPass {
            spec,
            tokens: (config.batch as u64).saturating_mul(config.sequence as u64),
            recomputes: savings.recomputes,
            of_host: moebius::largest_buffer(device).is_none(),
            element: config
                .precision
                .products()
                .map_or(4, |dtype| dtype.size() as u64),
        };
        let hidden = spec.hidden;
        let model = bytes_of(spec.parameters());
        let adapter = savings.adapter.map(|count| count.saturating_mul(4));
        let trained = adapter.unwrap_or(model);
        let moments = if savings.offloads {
            0
        } else {
            trained.saturating_mul(2)
        };
        let of_layers = spec.layers.iter().map(|layer| pass.kept(layer));
        let (waiting, kept) = if savings.recomputes {
            let inputs = pass.input().saturating_mul(spec.layers.len() as u64);
            let layer = of_layers.max().unwrap_or(0);
            (inputs, inputs.saturating_add(layer))
        } else {
            let all = of_layers.fold(0, u64::saturating_add);
            (all, all)
        };
        // The input of the norm, what it divides, and its output; the exponents of the softmax and two gradients of their size; logits in bf16
        // and their gradient.
        let of_logits = 3 + usize::from(pass.element < 4);
        let head = pass.bytes(3 * hidden + of_logits * spec.vocabulary);
        let sum = if config.accumulate > 1 { trained } else { 0 };
        let largest = largest(spec).min(trained);
        let of_batch = [
            waiting.saturating_add(head),
            pass.in_layers(trained),
            trained.saturating_add(largest),
        ];
        let of_batch = of_batch.into_iter().fold(0, u64::max).saturating_add(sum);
        let of_batch = of_batch.saturating_add(pass.copies(trained));
        let in_file = savings.offloads && pass.of_host;
        let moving = 2 * u64::from(savings.offloads) + u64::from(in_file);
        let ahead = u64::from(in_file) * MomentStore::read_ahead(trained.saturating_mul(2));
        let decoded = decodes_weights(device).then(|| largest_coded(spec, config.base));
        let most = of_batch.max(of_update(trained, largest, moving));
        let most = [pass.spare(), ahead, decoded.unwrap_or(0)]
            .into_iter()
            .fold(most, u64::saturating_add);
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

/// A backward pass over the layers, from the last one to the first.
struct BackwardPass<'a> {
    spec: &'a ModelSpec,
    tokens: u64,
    /// Layers are computed again, each from its input alone.
    recomputes: bool,
    /// CubeCL doesn't drive the device, which is counted as Flex then.
    of_host: bool,
    /// Bytes of a value that products read and write.
    element: u64,
}

impl BackwardPass<'_> {
    /// Bytes of so many values of each token in f32.
    fn bytes(&self, of_token: usize) -> u64 {
        (4 * of_token as u64).saturating_mul(self.tokens)
    }

    /// Bytes that a layer keeps for the pass.
    fn kept(&self, layer: &LayerSpec) -> u64 {
        let hidden = self.spec.hidden;
        let (all, wide) = (layer.kept(hidden), layer.kept_in_f32(hidden));
        if self.element == 4 {
            return self.bytes(all);
        }
        let narrow = self.bytes(all - wide) / 4 * self.element;
        let wide = wide + layer.kept_of_casts(hidden);
        self.bytes(wide).saturating_add(narrow)
    }

    /// Bytes of a layer's input.
    fn input(&self) -> u64 {
        self.bytes(self.spec.hidden) / 4 * self.element
    }

    /// Bytes of the copies that products read of parameters of `trained` bytes in f32: of all, or of one layer and the head.
    fn copies(&self, trained: u64) -> u64 {
        if self.element == 4 {
            return 0;
        }
        let of_layer = |at| {
            let [network, rest] = [true, false].map(|of| gradients_of(self.spec, at, of));
            network.saturating_add(rest)
        };
        let copied = if self.recomputes {
            let layers = (0..self.spec.layers.len()).map(of_layer);
            layers.max().unwrap_or(0).saturating_add(self.head())
        } else {
            trained
        };
        copied.min(trained) / 4 * self.element
    }

    /// Bytes of the head's matrix in f32.
    fn head(&self) -> u64 {
        let head = if self.spec.tied {
            Slot::Embedding
        } else {
            Slot::Head
        };
        size(&head.shape(self.spec, 0).unwrap_or_default())
    }

    /// The most bytes at once while the pass is in the layers: what the layers before one keep, what it keeps itself, the gradients of its network
    /// and of all after it, of no more than the `trained` bytes of parameters, and what the layer's own pass computes.
    fn in_layers(&self, trained: u64) -> u64 {
        let spec = self.spec;
        let layers = spec.layers.iter();
        let mut waiting = 0_u64;
        let before = layers.map(|layer| {
            let before = waiting;
            waiting = waiting.saturating_add(if self.recomputes {
                self.input()
            } else {
                self.kept(layer)
            });
            before
        });
        let before: Vec<u64> = before.collect();
        let (mut most, mut gradients) = (0, self.head());
        for (at, layer) in spec.layers.iter().enumerate().rev() {
            gradients = gradients.saturating_add(gradients_of(spec, at, true));
            let gradients_there = gradients.min(trained);
            let parts = [self.kept(layer), gradients_there, self.passing(layer)];
            most = most.max(parts.into_iter().fold(before[at], u64::saturating_add));
            gradients = gradients.saturating_add(gradients_of(spec, at, false));
        }
        most
    }

    /// Bytes of a network's gradients, whose memory Flex keeps for the next one; none on other devices.
    fn spare(&self) -> u64 {
        let networks = self.spec.layers.iter().filter(|_| self.of_host);
        let of = |layer: &LayerSpec| self.bytes(layer.network_gradients(self.spec.hidden));
        networks.map(of).max().unwrap_or(0)
    }

    /// Bytes that a layer's backward pass has beside what the layer keeps, without those that Flex keeps for the next layer.
    fn passing(&self, layer: &LayerSpec) -> u64 {
        let hidden = self.spec.hidden;
        let passing = self.bytes(layer.passing(hidden, !self.of_host));
        if !self.of_host {
            return passing;
        }
        let piece = layer.of_piece(self.tokens).saturating_mul(4);
        passing.max(self.bytes(2 * hidden).saturating_add(piece))
    }
}

/// Bytes of the gradients of a layer's network, or of the rest of the layer.
fn gradients_of(spec: &ModelSpec, layer: usize, of_network: bool) -> u64 {
    let slots = Slot::ALL.iter().filter(|slot| slot.is_of_layer());
    let slots = slots.filter(|slot| slot.is_of_network() == of_network);
    let shapes = slots.filter_map(|slot| slot.shape(spec, layer));
    let sizes = shapes.map(|shape| size(&shape));
    sizes.fold(0, u64::saturating_add)
}

/// The most bytes at once while the optimizer updates parameters of `trained` bytes, of which the largest has `largest`. Of moments that are
/// elsewhere between steps those of so many parameters are `moving`: one's come, and that's before leave; those before may wait to be written.
fn of_update(trained: u64, largest: u64, moving: u64) -> u64 {
    let moving = largest.saturating_mul(2 * moving);
    let update = trained.saturating_add(largest.saturating_mul(2));
    update.saturating_add(moving.min(trained.saturating_mul(2)))
}

/// Bytes of so many parameters in f32.
fn bytes_of(parameters: f64) -> u64 {
    // A cast to an integer saturates.
    (parameters as u64).saturating_mul(4)
}

/// Bytes of the largest parameter.
fn largest(spec: &ModelSpec) -> u64 {
    let places = Slot::places(spec).into_iter();
    let sizes = places.map(|place| size(&place.shape(spec)));
    sizes.max().unwrap_or(0)
}

/// Bytes in f32 of the largest matrix of codes below an adapter, of a single expert where there are several.
fn largest_coded(spec: &ModelSpec, base: BaseWeights) -> u64 {
    let is_coded = |slot: Slot| match base {
        BaseWeights::F32 | BaseWeights::Bf16 => false,
        BaseWeights::Fp8 => slot.takes_codes(),
        BaseWeights::File | BaseWeights::Blocks(_) => slot.takes_blocks(),
    };
    let places = Slot::places(spec).into_iter();
    let sizes = places.filter(|place| is_coded(place.slot)).map(|place| {
        let [_, rows, columns] = place.slot.extents(&place.shape(spec));
        size(&[rows, columns])
    });
    sizes.max().unwrap_or(0)
}

/// Bytes of a parameter of this shape in f32.
fn size(shape: &[usize]) -> u64 {
    bytes_of(shape.iter().map(|&extent| extent as f64).product())
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "memory_tests.rs"]
mod tests;
