//! The places of a model: its slots, each in its layer.

use moebius_weights::Unfit;

use super::slot::Slot;
use super::spec::ModelSpec;
use crate::error::Error;

/// A slot of a model: of a layer, where the slot is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The layer's number; 0 for slots outside of layers.
    pub layer: usize,
    /// The slot.
    pub slot: Slot,
}

impl Place {
    /// Its extents in the model; none of a place that the model doesn't have.
    pub fn shape(self, spec: &ModelSpec) -> Vec<usize> {
        self.slot.shape(spec, self.layer).unwrap_or_default()
    }

    /// That the model doesn't have it.
    pub(crate) fn absent(self) -> Error {
        Error::Config(Unfit::new(
            "a place",
            "one of the model",
            format!("{self:?}"),
        ))
    }
}

impl Slot {
    /// All places of a model.
    pub fn places(spec: &ModelSpec) -> Vec<Place> {
        let of_layers = (0..spec.layers.len()).flat_map(|layer| {
            let slots = Self::ALL.iter().copied().filter(|slot| slot.is_of_layer());
            slots.map(move |slot| Place { layer, slot })
        });
        let outer = Self::OUTER.map(|slot| Place { layer: 0, slot });
        let all = outer.into_iter().chain(of_layers);
        all.filter(|at| at.slot.shape(spec, at.layer).is_some())
            .collect()
    }
}

impl ModelSpec {
    /// Numbers of all weights.
    pub fn parameters(&self) -> f64 {
        self.count(|_| 1.0)
    }

    /// Numbers of the weights that one token is multiplied with: of experts, those that it goes to; of the embedding, none unless it is the
    /// head, too; of learned positions, none.
    pub fn active_parameters(&self) -> f64 {
        self.count(|Place { layer, slot }| match slot {
            Slot::Embedding if !self.tied => 0.0,
            Slot::Positions => 0.0,
            Slot::ExpertsIn | Slot::ExpertsOut => self.layers[layer].share_of_experts(),
            _ => 1.0,
        })
    }

    /// The sum over all places of their numbers times a share. As a float, because sizes from a file may exceed any whole number.
    fn count(&self, share: impl Fn(Place) -> f64) -> f64 {
        let of = |place: Place| {
            let shape = place.shape(self);
            let numbers: f64 = shape.iter().map(|&extent| extent as f64).product();
            numbers * share(place)
        };
        Slot::places(self).into_iter().map(of).sum()
    }
}
