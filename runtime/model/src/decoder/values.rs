//! The values of a model's places on the host, wherever they come from: a checkpoint, a generator, a model on a device.

use burn::module::Param;
use burn::tensor::{DType, Device, Tensor};
use moebius::fp8::Weight;

use super::place::Place;
use super::source::{Weights, floating, uploaded};
use super::spec::ModelSpec;
use super::{Model, Slot};
use crate::error::Error;

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
