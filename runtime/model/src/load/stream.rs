//! Streams the weights of a model from a checkpoint to a device.

use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{DType, Device, Tensor};
use moebius::blocks::BlockTensor;
use moebius::fp8::Weight;
use moebius::moe::switching::ExpertSource;
use moebius::nn::takes_half_weights;

use super::adapting::low_ranks;
use super::course::Course;
use super::experts::ExpertsInFiles;
use super::host::{HostWeights, OnHost};
use super::kept::{is_changed_beside, parts};
use super::narrow::Blocks;
use super::placing::upload;
use super::{ExpertsFrom, LoadOptions, ModelFiles, Progress};
use crate::decoder::{Place, Slot, Weights, floating, uploaded};
use crate::error::Error;

/// Source of the weights of a checkpoint for a device.
pub(super) struct WeightStream<'a> {
    pub(super) files: &'a ModelFiles,
    pub(super) device: &'a Device,
    pub(super) options: LoadOptions,
    pub(super) course: &'a mut Course,
    pub(super) progress: &'a mut dyn FnMut(Progress<'_>),
}

impl<'a> WeightStream<'a> {
    fn host(&self) -> HostWeights<'a> {
        HostWeights {
            reader: self.files.files.checkpoint(),
            plan: &self.files.plan,
            options: self.options,
        }
    }

    fn report(&mut self, name: &str) {
        let reader = self.files.files.checkpoint();
        (self.progress)(self.course.at(reader, name));
    }

    fn tensor<const D: usize>(&mut self, at: Place) -> Result<Tensor<D>, Error> {
        let host = self.host();
        let (plain, frozen) = (self.device.clone().inner(), self.options.frozen);
        let device = if frozen { &plain } else { self.device };
        let narrow = self.options.narrow_embedding
            && matches!(at.slot, Slot::Embedding | Slot::Head)
            && host.computes_in_f32()
            && takes_half_weights(device);
        let dtype = if narrow {
            DType::BF16
        } else {
            self.options.dtype_of(at.slot)
        };
        let [stack, ..] = host.extents(at);
        let read = host.floats(at, 0..stack, dtype, &mut |name| self.report(name));
        let tensor: Tensor<D> = uploaded(read?, host.shape(at), (self.device, dtype));
        // Gradients pass through no narrow table: its values, widened, take its place.
        Ok(if narrow && frozen {
            tensor.cast(DType::F32)
        } else {
            tensor
        })
    }

    fn uploaded(&self, blocks: &Blocks) -> Result<BlockTensor, Error> {
        let plain = self.device.clone().inner();
        let tensor = BlockTensor::from_bytes(&blocks.bytes, blocks.layout, &plain)?;
        Ok(self.made(tensor.with_dtype(self.options.dtype)))
    }

    /// What was made of codes, where no gradients are recorded, on the device.
    fn made<M: Module>(&self, of_codes: M) -> M {
        if self.device.is_autodiff() {
            of_codes.train()
        } else {
            of_codes
        }
    }

    /// A weight in blocks or as codes if the file has such or values are rounded, with the changes of adapters beside them, else as values.
    fn any<const D: usize>(&mut self, at: Place) -> Result<Weight<D>, Error> {
        let host = self.host();
        let (shape, target) = (host.extents(at), host.target(at));
        let on = (self.device, self.options.dtype);
        let read = host.weight(at, 0..shape[0], &mut |name| self.report(name));
        let weight = match read? {
            OnHost::Codes(codes) => {
                let codes = upload(&codes, &self.device.clone().inner())?;
                let parts = parts(at.slot, target, self.options);
                self.made(Weight::from_fp8(codes, parts)?)
            }
            OnHost::Blocks(blocks) => Weight::from_blocks(self.uploaded(&blocks)?)?,
            OnHost::Values(values) => floating(uploaded(values, host.shape(at), on), at.slot),
        };
        if is_changed_beside(at.slot, target, self.options) {
            return Ok(weight.with_changes(low_ranks(target, shape, on))?);
        }
        Ok(weight)
    }
}

impl Weights for WeightStream<'_> {
    fn vector(&mut self, at: Place) -> Result<Tensor<1>, Error> {
        self.tensor(at)
    }

    fn matrix(&mut self, at: Place) -> Result<Tensor<2>, Error> {
        self.tensor(at)
    }

    fn table(&mut self, at: Place) -> Result<Option<BlockTensor>, Error> {
        let blocks = self
            .host()
            .blocks(at, 0..1, &mut |name| self.report(name))?;
        blocks.map(|blocks| self.uploaded(&blocks)).transpose()
    }

    fn weight(&mut self, at: Place) -> Result<Weight<2>, Error> {
        self.any(at)
    }

    fn stack(&mut self, at: Place) -> Result<Weight<3>, Error> {
        self.any(at)
    }

    fn experts(&mut self, layer: usize) -> Option<Arc<dyn ExpertSource>> {
        match self.options.experts_from {
            ExpertsFrom::Memory => None,
            ExpertsFrom::Files => {
                let experts = ExpertsInFiles::new(self.files, self.options, layer);
                Some(Arc::new(experts))
            }
        }
    }
}
