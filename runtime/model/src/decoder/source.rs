//! Where weights come from.

use burn::module::Param;
use burn::nn::RmsNorm;
use burn::tensor::{DType, Device, Tensor, TensorData};
use moebius::fp8::Weight;
use moebius::nn::Linear;

use super::place::Place;
use super::slot::Slot;
use super::spec::ModelSpec;
use crate::error::Error;

/// `values` of the extents `shape` on a device; a matrix may be asked for as a stack of one.
pub(crate) fn uploaded<const D: usize>(
    values: Vec<f32>,
    shape: &[usize],
    on: (&Device, DType),
) -> Tensor<D> {
    let ones = D.saturating_sub(shape.len());
    let shape: Vec<usize> = std::iter::repeat_n(1, ones)
        .chain(shape.iter().copied())
        .collect();
    Tensor::from_data(TensorData::new(values, shape), on)
}

/// The values of a slot as a weight.
pub(crate) fn floating<const D: usize>(values: Tensor<D>, slot: Slot) -> Weight<D> {
    Weight::from(Param::from_tensor(values)).with_parts(slot.parts())
}

/// Gives a model its weights, one at a time, each once, in the order in which its parts are made.
///
/// Only places that the model has are asked for, and what is given has the extents of the place.
pub trait Weights {
    /// A tensor of one extent: a bias, or the factors of a norm.
    ///
    /// # Errors
    /// What keeps it from being read.
    fn vector(&mut self, place: Place) -> Result<Tensor<1>, Error>;

    /// A tensor of two extents that no product has codes of: biases of experts, a router, an embedding. A vector is one row.
    ///
    /// # Errors
    /// What keeps it from being read.
    fn matrix(&mut self, place: Place) -> Result<Tensor<2>, Error>;

    /// A weight \[out, in\] in any precision.
    ///
    /// # Errors
    /// What keeps it from being read.
    fn weight(&mut self, place: Place) -> Result<Weight<2>, Error>;

    /// Weights \[experts, out, in\] in any precision; a matrix is a stack of one.
    ///
    /// # Errors
    /// What keeps it from being read.
    fn stack(&mut self, place: Place) -> Result<Weight<3>, Error>;
}

/// The weights of one layer, or of what is outside of them.
pub(super) struct Of<'a> {
    pub(super) weights: &'a mut dyn Weights,
    pub(super) spec: &'a ModelSpec,
    pub(super) layer: usize,
}

impl Of<'_> {
    fn place(&self, slot: Slot) -> Place {
        Place {
            layer: self.layer,
            slot,
        }
    }

    /// What `get` gives of a slot that the model has.
    fn if_there<T>(
        &mut self,
        slot: Slot,
        get: impl FnOnce(&mut Self, Slot) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let there = slot.shape(self.spec, self.layer).is_some();
        there.then(|| get(self, slot)).transpose()
    }

    pub(super) fn vector(&mut self, slot: Slot) -> Result<Param<Tensor<1>>, Error> {
        let place = self.place(slot);
        Ok(Param::from_tensor(self.weights.vector(place)?))
    }

    pub(super) fn matrix(&mut self, slot: Slot) -> Result<Param<Tensor<2>>, Error> {
        let place = self.place(slot);
        Ok(Param::from_tensor(self.weights.matrix(place)?))
    }

    /// A weight of attention, which trains as the layer's description says.
    fn weight(&mut self, slot: Slot) -> Result<Weight<2>, Error> {
        let place = self.place(slot);
        let weight = self.weights.weight(place)?;
        let recipe = self.spec.layers[self.layer].attention.fp8;
        Ok(match recipe {
            Some(recipe) => weight.in_fp8(recipe)?,
            None => weight,
        })
    }

    pub(super) fn stack(&mut self, slot: Slot) -> Result<Weight<3>, Error> {
        let place = self.place(slot);
        self.weights.stack(place)
    }

    /// A vector where there is one.
    pub(super) fn vector_if(&mut self, slot: Slot) -> Result<Option<Param<Tensor<1>>>, Error> {
        self.if_there(slot, Self::vector)
    }

    /// A matrix where there is one.
    pub(super) fn matrix_if(&mut self, slot: Slot) -> Result<Option<Param<Tensor<2>>>, Error> {
        self.if_there(slot, Self::matrix)
    }

    /// A linear layer of attention without a bias.
    pub(super) fn linear(&mut self, slot: Slot) -> Result<Linear, Error> {
        Ok(Linear::new(self.weight(slot)?, None)?)
    }

    /// The same where there is one.
    pub(super) fn linear_if(&mut self, slot: Slot) -> Result<Option<Linear>, Error> {
        self.if_there(slot, Self::linear)
    }

    /// The same with a bias where there is one.
    pub(super) fn biased(&mut self, slot: Slot, bias: Slot) -> Result<Linear, Error> {
        let weight = self.weight(slot)?;
        Ok(Linear::new(weight, self.vector_if(bias)?)?)
    }

    /// The same where there is one.
    pub(super) fn biased_if(&mut self, slot: Slot, bias: Slot) -> Result<Option<Linear>, Error> {
        self.if_there(slot, |from, slot| from.biased(slot, bias))
    }

    /// A norm by the root of the mean of squares.
    pub(super) fn norm(&mut self, slot: Slot, epsilon: f64) -> Result<RmsNorm, Error> {
        let gamma = self.vector(slot)?;
        Ok(RmsNorm { gamma, epsilon })
    }

    /// The same where there is one.
    pub(super) fn norm_if(&mut self, slot: Slot, epsilon: f64) -> Result<Option<RmsNorm>, Error> {
        self.if_there(slot, |from, slot| from.norm(slot, epsilon))
    }
}
