//! Streams the weights of a model from a checkpoint to a device.

use std::sync::Arc;

use burn::tensor::{DType, Device, Tensor};
use moebius::blocks::BlockTensor;
use moebius::fp8::Weight;
use moebius::moe::switching::ExpertSource;
use moebius::nn::takes_half_weights;

use super::course::Course;
use super::experts::ExpertsInFiles;
use super::host::{HostWeights, OnHost};
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
        let narrow = self.options.narrow_embedding
            && matches!(at.slot, Slot::Embedding | Slot::Head)
            && host.computes_in_f32()
            && takes_half_weights(self.device);
        let dtype = if narrow {
            DType::BF16
        } else {
            self.options.dtype
        };
        let [stack, ..] = host.extents(at);
        let read = host.floats(at, 0..stack, dtype, &mut |name| self.report(name));
        Ok(uploaded(read?, host.shape(at), (self.device, dtype)))
    }

    fn uploaded(&self, blocks: &Blocks) -> Result<BlockTensor, Error> {
        let tensor = BlockTensor::from_bytes(&blocks.bytes, blocks.layout, self.device)?;
        Ok(tensor.with_dtype(self.options.dtype))
    }

    /// A weight in blocks or as codes if the file has such or values are rounded, else as values.
    fn any<const D: usize>(&mut self, at: Place) -> Result<Weight<D>, Error> {
        let host = self.host();
        let [stack, ..] = host.extents(at);
        let read = host.weight(at, 0..stack, &mut |name| self.report(name));
        match read? {
            OnHost::Codes(codes) => {
                let codes = upload(&codes, self.device)?;
                Ok(Weight::from_fp8(codes, at.slot.parts())?)
            }
            OnHost::Blocks(blocks) => Ok(Weight::from_blocks(self.uploaded(&blocks)?)?),
            OnHost::Values(values) => {
                let on = (self.device, self.options.dtype);
                Ok(floating(uploaded(values, host.shape(at), on), at.slot))
            }
        }
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
