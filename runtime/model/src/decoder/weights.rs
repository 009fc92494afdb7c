//! The sources of a model's weights, and of the values of places on the host: a checkpoint, a generator, or a model on a device.

use std::f32::consts::TAU;
use std::sync::Arc;

use burn::module::Param;
use burn::nn::RmsNorm;
use burn::tensor::{DType, Device, Tensor, TensorData};
use moebius::blocks::BlockTensor;
use moebius::fp8::Weight;
use moebius::moe::switching::ExpertSource;
use moebius::nn::Linear;

use super::Model;
use super::slot::{Kind, Place, Slot};
use super::spec::ModelSpec;
use crate::error::Error;
use crate::random::Random;

/// A tensor on a device with `values` and the shape `shape`; a matrix may be made as a stack of one.
pub(crate) fn uploaded<const D: usize>(
    values: TensorData,
    shape: &[usize],
    on: (&Device, DType),
) -> Tensor<D> {
    let ones = D.saturating_sub(shape.len());
    let shape: Vec<usize> = std::iter::repeat_n(1, ones)
        .chain(shape.iter().copied())
        .collect();
    let (bytes, _, dtype) = values.into_parts();
    Tensor::from_data(TensorData::from_bytes(bytes, shape, dtype), on)
}

/// A floating-point weight with the values of a slot.
pub(crate) fn floating<const D: usize>(values: Tensor<D>, slot: Slot) -> Weight<D> {
    Weight::from(Param::from_tensor(values)).with_parts(slot.parts())
}

/// Provides a model's weights, each once, in the order in which the model's parts are made.
///
/// A model asks only for places that it has, and each tensor has the shape of its place.
pub trait Weights {
    /// The vector of a place: a bias, or the factors of a norm.
    ///
    /// # Errors
    /// The error that keeps the vector from being read.
    fn vector(&mut self, place: Place) -> Result<Tensor<1>, Error>;

    /// The matrix of a place that is never stored as codes: biases of experts, a router, an embedding. A vector is one row.
    ///
    /// # Errors
    /// The error that keeps the matrix from being read.
    fn matrix(&mut self, place: Place) -> Result<Tensor<2>, Error>;

    /// The embedding or the head in blocks of codes; `None` where [`matrix`](Self::matrix) gives it.
    ///
    /// # Errors
    /// The error that keeps the blocks from being read.
    fn table(&mut self, _place: Place) -> Result<Option<BlockTensor>, Error> {
        Ok(None)
    }

    /// The weight \[out, in\] of a place, in any precision.
    ///
    /// # Errors
    /// The error that keeps the weight from being read.
    fn weight(&mut self, place: Place) -> Result<Weight<2>, Error>;

    /// The weights \[experts, out, in\] of a place, in any precision; a matrix is a stack of one.
    ///
    /// # Errors
    /// The error that keeps the weights from being read.
    fn stack(&mut self, place: Place) -> Result<Weight<3>, Error>;

    /// The experts of a layer, to be read when tokens need them; `None` where [`stack`](Self::stack) and [`matrix`](Self::matrix) give them all.
    fn experts(&mut self, _layer: usize) -> Option<Arc<dyn ExpertSource>> {
        None
    }
}

/// The embedding or the head, and its blocks in place of its values.
pub(super) type Table = (Param<Tensor<2>>, Option<BlockTensor>);

/// Source of the weights of one layer, or of what is outside of the layers.
pub(super) struct Of<'a> {
    pub(super) weights: &'a mut dyn Weights,
    pub(super) spec: &'a ModelSpec,
    pub(super) layer: usize,
    /// Bytes of the device for the experts of each layer, if not all of them are there.
    pub(super) expert_bytes: Option<u64>,
}

impl Of<'_> {
    fn place(&self, slot: Slot) -> Place {
        Place {
            layer: self.layer,
            slot,
        }
    }

    /// The result of `get`, if the model has the slot.
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

    /// The embedding or the head: a parameter, or blocks of codes and a parameter of a single 0 that nothing reads.
    pub(super) fn table(&mut self, slot: Slot) -> Result<Table, Error> {
        let place = self.place(slot);
        let Some(blocks) = self.weights.table(place)? else {
            return Ok((self.matrix(slot)?, None));
        };
        let unread = Tensor::zeros([1, 1], (&blocks.device(), DType::F32));
        let unread = Param::from_tensor(unread).set_require_grad(false);
        Ok((unread, Some(blocks)))
    }

    /// A weight of attention or of a convolution, in the precision that the layer trains in.
    fn weight(&mut self, slot: Slot) -> Result<Weight<2>, Error> {
        let place = self.place(slot);
        let weight = self.weights.weight(place)?;
        Ok(match self.spec.layers[self.layer].fp8() {
            Some(recipe) => weight.in_fp8(recipe)?,
            None => weight,
        })
    }

    pub(super) fn stack(&mut self, slot: Slot) -> Result<Weight<3>, Error> {
        let place = self.place(slot);
        self.weights.stack(place)
    }

    /// The vector of a slot, if the model has the slot.
    pub(super) fn vector_if(&mut self, slot: Slot) -> Result<Option<Param<Tensor<1>>>, Error> {
        self.if_there(slot, Self::vector)
    }

    /// The matrix of a slot, if the model has the slot.
    pub(super) fn matrix_if(&mut self, slot: Slot) -> Result<Option<Param<Tensor<2>>>, Error> {
        self.if_there(slot, Self::matrix)
    }

    /// The head as [`Self::table`] gives it, if the model has the slot.
    pub(super) fn table_if(&mut self, slot: Slot) -> Result<Option<Table>, Error> {
        self.if_there(slot, Self::table)
    }

    /// A linear layer of attention without a bias.
    pub(super) fn linear(&mut self, slot: Slot) -> Result<Linear, Error> {
        Ok(Linear::new(self.weight(slot)?, None)?)
    }

    /// A linear layer of attention without a bias, if the model has the slot.
    pub(super) fn linear_if(&mut self, slot: Slot) -> Result<Option<Linear>, Error> {
        self.if_there(slot, Self::linear)
    }

    /// A linear layer of attention, with a bias if the model has the bias's slot.
    pub(super) fn biased(&mut self, slot: Slot, bias: Slot) -> Result<Linear, Error> {
        let weight = self.weight(slot)?;
        Ok(Linear::new(weight, self.vector_if(bias)?)?)
    }

    /// A linear layer of attention as [`Self::biased`] makes it, if the model has the slot.
    pub(super) fn biased_if(&mut self, slot: Slot, bias: Slot) -> Result<Option<Linear>, Error> {
        self.if_there(slot, |from, slot| from.biased(slot, bias))
    }

    /// An RMS norm.
    pub(super) fn norm(&mut self, slot: Slot, epsilon: f64) -> Result<RmsNorm, Error> {
        let gamma = self.vector(slot)?;
        Ok(RmsNorm { gamma, epsilon })
    }

    /// An RMS norm, if the model has the slot.
    pub(super) fn norm_if(&mut self, slot: Slot, epsilon: f64) -> Result<Option<RmsNorm>, Error> {
        self.if_there(slot, |from, slot| from.norm(slot, epsilon))
    }
}

/// Provides the values of places on the host, in any order and any number of times.
pub trait Values {
    /// All values of a place, in the row-major order of its shape ([`Slot::shape`]).
    ///
    /// # Errors
    /// The error that keeps the values from being read.
    fn values(&mut self, place: Place) -> Result<Vec<f32>, Error>;

    /// Whether the model has a head that isn't its embedding, whatever its configuration says; `None` where the configuration decides.
    fn own_head(&self) -> Option<bool> {
        None
    }
}

/// [`Weights`] on a device, made from any [`Values`] on the host.
pub struct Uploaded<'a> {
    /// Source of the values.
    pub values: &'a mut dyn Values,
    /// Description of the model.
    pub spec: &'a ModelSpec,
    /// Device of the tensors.
    pub device: &'a Device,
    /// Dtype of the tensors.
    pub dtype: DType,
}

impl Uploaded<'_> {
    fn tensor<const D: usize>(&mut self, at: Place) -> Result<Tensor<D>, Error> {
        let values = self.values.values(at)?;
        let count = values.len();
        let values = TensorData::new(values, [count]);
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

/// Values that a part of a model holds in a slot, as one row; `None` for slots that the part doesn't have.
pub(super) type Held = Result<Option<Tensor<1>>, Error>;

/// The values of a parameter as one row.
pub(super) fn row<const D: usize>(param: &Param<Tensor<D>>) -> Held {
    Ok(Some(param.val().flatten(0, D - 1)))
}

/// The values of an optional parameter as one row.
pub(super) fn row_if<const D: usize>(param: &Option<Param<Tensor<D>>>) -> Held {
    param.as_ref().map_or(Ok(None), row)
}

/// The factors of an optional norm as one row.
pub(super) fn of_norm(norm: Option<&RmsNorm>) -> Held {
    norm.map_or(Ok(None), |norm| row(&norm.gamma))
}

/// The decoded values of blocks as one row.
fn of_blocks(blocks: &Option<BlockTensor>) -> Held {
    let values = blocks.as_ref().map(BlockTensor::to_dense).transpose()?;
    Ok(values.map(|values| values.flatten(0, 2)))
}

/// The values of a weight in any precision as one row; codes are decoded.
pub(super) fn decoded<const D: usize>(weight: &Weight<D>) -> Held {
    Ok(Some(weight.values()?.flatten(0, D - 1)))
}

/// Reads the values of a place from the device; FP8 codes are decoded.
impl Values for &Model {
    fn values(&mut self, place: Place) -> Result<Vec<f32>, Error> {
        let held = self.held(place)?;
        let held = held.ok_or_else(|| place.absent())?;
        Error::guarded(|| {
            let data = held.without_autodiff().try_into_data();
            Ok(data.map_err(Error::device)?.iter().collect())
        })
    }

    fn own_head(&self) -> Option<bool> {
        Some(!self.spec().tied)
    }
}

impl Model {
    /// Makes a decoder in f32 on `device`, with weights from `values`.
    ///
    /// # Errors
    /// The errors of `values` and of [`Model::load`].
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
            Slot::Embedding if self.embedding_blocks.is_some() => of_blocks(&self.embedding_blocks),
            Slot::Head if self.head_blocks.is_some() => of_blocks(&self.head_blocks),
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

/// Standard deviation of the initial weights, the one of most published decoders.
const DEVIATION: f32 = 0.02;

/// Draws initial weights: norms are 1, biases and sinks 0, and everything else is normal with deviation 0.02. For products whose result is
/// added to the layer's input the deviation is divided by √(2 · layers), so that the sum doesn't grow with depth (Radford et al. 2019). The
/// values of a place depend on the seed and the place alone, and are the same on every machine that rounds ln, cos and √ alike.
#[derive(Clone, Copy, Debug)]
pub struct Drawn<'a> {
    spec: &'a ModelSpec,
    seed: u64,
}

impl<'a> Drawn<'a> {
    /// The source of initial weights for `spec`.
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

/// A random number of the standard normal distribution (Box and Muller 1958).
fn normal(random: &mut Random) -> f32 {
    // The first number is in (0, 1], so that its logarithm is finite.
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
