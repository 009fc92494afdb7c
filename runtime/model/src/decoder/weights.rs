//! Where weights come from, and the values of places on the host, wherever those come from: a checkpoint, a generator, a model on a
//! device.

use std::f32::consts::TAU;

use burn::module::Param;
use burn::nn::RmsNorm;
use burn::tensor::{DType, Device, Tensor, TensorData};
use moebius::fp8::Weight;
use moebius::nn::Linear;

use super::Model;
use super::slot::{Kind, Place, Slot};
use super::spec::ModelSpec;
use crate::error::Error;
use crate::random::Random;

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

/// Gives the values of places, in any order and any number of times.
pub trait Values {
    /// All values of a place in the order of its shape ([`Slot::shape`]).
    ///
    /// # Errors
    /// What keeps them from being read.
    fn values(&mut self, place: Place) -> Result<Vec<f32>, Error>;
}

/// Values that become tensors on a device: [`Weights`] of any [`Values`].
pub struct Uploaded<'a> {
    /// Where the values come from.
    pub values: &'a mut dyn Values,
    /// Of what.
    pub spec: &'a ModelSpec,
    /// Where to.
    pub device: &'a Device,
    /// What the tensors are in.
    pub dtype: DType,
}

impl Uploaded<'_> {
    fn tensor<const D: usize>(&mut self, at: Place) -> Result<Tensor<D>, Error> {
        let values = self.values.values(at)?;
        let on = (self.device, self.dtype);
        Ok(uploaded(values, &at.shape(self.spec), on))
    }
}

impl Weights for Uploaded<'_> {
    fn vector(&mut self, at: Place) -> Result<Tensor<1>, Error> {
        self.tensor(at)
    }

    fn matrix(&mut self, at: Place) -> Result<Tensor<2>, Error> {
        self.tensor(at)
    }

    fn weight(&mut self, at: Place) -> Result<Weight<2>, Error> {
        Ok(floating(self.tensor(at)?, at.slot))
    }

    fn stack(&mut self, at: Place) -> Result<Weight<3>, Error> {
        Ok(floating(self.tensor(at)?, at.slot))
    }
}

/// What a part of a model holds in a slot, in one row; `None` for slots that it doesn't have.
pub(super) type Held = Result<Option<Tensor<1>>, Error>;

/// A parameter in one row.
pub(super) fn row<const D: usize>(param: &Param<Tensor<D>>) -> Held {
    Ok(Some(param.val().flatten(0, D - 1)))
}

/// The same of one that may not be there.
pub(super) fn row_if<const D: usize>(param: &Option<Param<Tensor<D>>>) -> Held {
    param.as_ref().map_or(Ok(None), row)
}

/// The values of a weight in any precision in one row.
pub(super) fn decoded<const D: usize>(weight: &Weight<D>) -> Held {
    Ok(Some(weight.values()?.flatten(0, D - 1)))
}

/// Reads a place from the device; FP8 codes are decoded.
impl Values for &Model {
    fn values(&mut self, place: Place) -> Result<Vec<f32>, Error> {
        let held = self.held(place)?;
        let held = held.ok_or_else(|| place.absent())?;
        Error::guarded(|| {
            let data = held.without_autodiff().try_into_data();
            Ok(data.map_err(Error::device)?.iter().collect())
        })
    }
}

impl Model {
    /// A decoder in f32 on `device`, with weights from `values`.
    ///
    /// # Errors
    /// What `values` says, and as [`Model::load`].
    pub fn of_values(
        spec: &ModelSpec,
        values: &mut dyn Values,
        device: &Device,
    ) -> Result<Self, Error> {
        let dtype = DType::F32;
        let mut weights = Uploaded {
            values,
            spec,
            device,
            dtype,
        };
        Self::load(spec, &mut weights)
    }

    fn held(&self, Place { layer, slot }: Place) -> Held {
        match slot {
            Slot::Embedding => row(&self.embedding),
            Slot::Positions => row_if(&self.positions),
            Slot::Norm => row(&self.norm.gamma),
            Slot::Head => row_if(&self.head),
            _ => {
                let block = self.blocks.get(layer);
                block.map_or(Ok(None), |block| block.held(slot))
            }
        }
    }
}

/// The deviation that most published decoders began with.
const DEVIATION: f32 = 0.02;

/// Draws weights: norms are 1, biases and sinks 0, everything else is normal with deviation 0.02, of products whose result is added to the
/// layer's input divided by √(2 · layers), so that the sum doesn't grow with depth (Radford et al. 2019). What a place gets
/// depends on the seed and the place alone, and is the same on every machine that rounds ln, cos and √ alike.
#[derive(Clone, Copy, Debug)]
pub struct Drawn<'a> {
    spec: &'a ModelSpec,
    seed: u64,
}

impl<'a> Drawn<'a> {
    /// First weights for `spec`.
    pub fn new(spec: &'a ModelSpec, seed: u64) -> Self {
        Self { spec, seed }
    }
}

impl Values for Drawn<'_> {
    fn values(&mut self, place: Place) -> Result<Vec<f32>, Error> {
        let count = place.shape(self.spec).iter().product();
        let deviation = match place.slot.kind() {
            Kind::Norm => return Ok(vec![1.0; count]),
            Kind::Bias => return Ok(vec![0.0; count]),
            Kind::Out => DEVIATION / (2.0 * self.spec.layers.len() as f32).sqrt(),
            Kind::Weight => DEVIATION,
        };
        let seeds = [self.seed, place.layer as u64, place.slot as u64];
        let mut random = Random::new(&seeds);
        Ok((0..count)
            .map(|_| deviation * normal(&mut random))
            .collect())
    }
}

/// A number of the standard normal distribution (Box and Muller 1958).
fn normal(random: &mut Random) -> f32 {
    // In (0, 1], so that the logarithm is finite.
    let [first, second] =
        [(); 2].map(|()| ((random.next() >> 40) + 1) as f32 / (1u64 << 24) as f32);
    (-2.0 * first.ln()).sqrt() * (TAU * second).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_normal_and_depend_on_the_seed() {
        let draws = |seed| {
            let mut random = Random::new(&[seed]);
            (0..20_000).map(|_| normal(&mut random)).collect::<Vec<_>>()
        };
        let one = draws(1);
        let mean = one.iter().sum::<f32>() / one.len() as f32;
        let square = one.iter().map(|x| x * x).sum::<f32>() / one.len() as f32;
        assert!(
            mean.abs() < 0.03 && (square - 1.0).abs() < 0.05,
            "{mean} {square}"
        );
        let far = one.iter().filter(|x| x.abs() > 1.96).count() as f32 / one.len() as f32;
        assert!((far - 0.05).abs() < 0.01, "{far}");
        assert_ne!(one, draws(2));
    }
}
