//! Streams the weights of a model from a checkpoint to a device.

use std::collections::BTreeMap;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{DType, Device, Tensor, TensorData};
use moebius::Room;
use moebius::blocks::BlockTensor;
use moebius::fp8::Weight;
use moebius::moe::switching::ExpertSource;
use moebius::nn::takes_half_weights;

use super::adapting::low_ranks;
use super::course::Course;
use super::experts::ExpertsInFiles;
use super::filling::Rows;
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
    /// What has been read of a layer with a place of it that was asked for.
    pub(super) ready: BTreeMap<Place, TensorData>,
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

    /// Whether the values of a place are bf16 in a model that computes in f32.
    fn is_narrow(&self, at: Place) -> bool {
        let asked = self.options.narrow_embedding && self.host().computes_in_f32();
        let takes_halves = || {
            if self.options.frozen {
                takes_half_weights(&self.device.clone().inner())
            } else {
                takes_half_weights(self.device)
            }
        };
        asked && matches!(at.slot, Slot::Embedding | Slot::Head) && takes_halves()
    }

    /// The dtype of the values of a place.
    fn dtype(&self, at: Place) -> DType {
        if self.is_narrow(at) {
            DType::BF16
        } else {
            self.options.dtype_of(at.slot)
        }
    }

    /// All matrices of a place, if their rows go to the host without anything in between.
    fn rows(&self, at: Place) -> Option<Rows<'a>> {
        let host = self.host();
        let [stack, ..] = host.extents(at);
        host.direct(at, 0..stack, self.dtype(at))
    }

    /// The places that are read with a place: all of its layer, side by side, where tensors take over the memory that they are read to. Experts that
    /// leave the device leave nothing behind that others need.
    fn together(&self, at: Place) -> Vec<Place> {
        let leaves = |at: Place| self.options.expert_cache.is_some() && at.slot.is_of_experts();
        if !at.slot.is_of_layer() || leaves(at) || !Room::stays(self.device) {
            return vec![at];
        }
        let places = self.files.plan.targets.keys().copied();
        let places = places.filter(|other| other.slot.is_of_layer() && other.layer == at.layer);
        places.filter(|other| !leaves(*other)).collect()
    }

    /// The words of blocks, or the values, of a place that has [`rows`](Self::rows).
    fn direct(&mut self, at: Place) -> Result<Option<TensorData>, Error> {
        if !self.ready.contains_key(&at) && self.rows(at).is_some() {
            let places = self.together(at).into_iter();
            let places = places.filter_map(|at| Some((at, self.rows(at)?)));
            let (places, rows): (Vec<_>, Vec<_>) = places.unzip();
            let (host, device) = (self.host(), self.device);
            let read = host.read(&rows, Some(device), &mut |name| self.report(name))?;
            self.ready.extend(places.into_iter().zip(read));
        }
        Ok(self.ready.remove(&at))
    }

    /// A place as it is loaded.
    fn read(&mut self, at: Place) -> Result<OnHost, Error> {
        let layout = self.rows(at).and_then(|rows| rows.layout());
        Ok(match (self.direct(at)?, layout) {
            (Some(words), Some(layout)) => OnHost::Blocks(Blocks {
                words,
                layout,
                interleaved: Room::stays(self.device),
            }),
            (Some(values), None) => OnHost::Values(values),
            (None, _) => {
                let host = self.host();
                let [stack, ..] = host.extents(at);
                host.weight(at, 0..stack, &mut |name| self.report(name))?
            }
        })
    }

    fn tensor<const D: usize>(&mut self, at: Place) -> Result<Tensor<D>, Error> {
        let (host, dtype) = (self.host(), self.dtype(at));
        let [stack, ..] = host.extents(at);
        let values = match self.direct(at)? {
            Some(values) => values,
            None => host.floats(at, 0..stack, dtype, &mut |name| self.report(name))?,
        };
        let tensor: Tensor<D> = uploaded(values, host.shape(at), (self.device, dtype));
        // Gradients pass through no narrow table: its values, widened, take its place.
        Ok(if self.is_narrow(at) && self.options.frozen {
            tensor.cast(DType::F32)
        } else {
            tensor
        })
    }

    fn uploaded(&self, blocks: Blocks) -> Result<BlockTensor, Error> {
        let Blocks { words, layout, .. } = blocks;
        let plain = self.device.clone().inner();
        let tensor = if blocks.interleaved {
            BlockTensor::from_interleaved(words, layout, &plain)?
        } else {
            BlockTensor::from_words(words, layout, &plain)?
        };
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
        let weight = match self.read(at)? {
            OnHost::Codes(codes) => {
                let codes = upload(&codes, &self.device.clone().inner())?;
                let parts = parts(at.slot, target, self.options);
                self.made(Weight::from_fp8(codes, parts)?)
            }
            OnHost::Blocks(blocks) => Weight::from_blocks(self.uploaded(blocks)?)?,
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
        if !self.host().has_blocks(at) {
            return Ok(None);
        }
        let OnHost::Blocks(blocks) = self.read(at)? else {
            unreachable!("what has blocks is read in blocks");
        };
        self.uploaded(blocks).map(Some)
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
