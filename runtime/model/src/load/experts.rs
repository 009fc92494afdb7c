//! Experts that stay in a model's files, and are read when tokens need them.

use std::fmt;
use std::sync::Arc;

use burn::tensor::TensorData;
use moebius::fp8::Fp8Layout;
use moebius::moe::switching::{ExpertSource, HostBlocks, HostCodes, HostExpert, HostWeight};

use super::host::{HostWeights, OnHost, values_in};
use super::mapping::Plan;
use super::narrow::Blocks;
use super::{Files, LoadOptions, ModelFiles};
use crate::decoder::{Place, Slot};
use crate::error::Error;

/// The experts of one layer in the files of a model. An expert is converted as a loading of all would convert it, each time that it is read; where
/// adapters change codes, it has values.
pub(super) struct ExpertsInFiles {
    files: Arc<Files>,
    plan: Arc<Plan>,
    options: LoadOptions,
    layer: usize,
    experts: usize,
    bytes_of_each: u64,
}

impl ExpertsInFiles {
    /// The experts of layer `layer`, which has some.
    pub(super) fn new(files: &ModelFiles, options: LoadOptions, layer: usize) -> Self {
        let mut this = Self {
            files: files.files.clone(),
            plan: files.plan.clone(),
            options,
            layer,
            experts: 0,
            bytes_of_each: 0,
        };
        let [experts, ..] = this.host().extents(this.place(Slot::ExpertsIn));
        let bytes = files.plan.expert_bytes(layer, files.files.checkpoint());
        this.experts = experts;
        this.bytes_of_each = bytes / experts.max(1) as u64;
        this
    }

    fn host(&self) -> HostWeights<'_> {
        HostWeights {
            reader: self.files.checkpoint(),
            plan: &self.plan,
            options: self.options,
        }
    }

    fn place(&self, slot: Slot) -> Place {
        Place {
            layer: self.layer,
            slot,
        }
    }

    /// An expert of weights and biases that `weight` and `values` give.
    fn expert(
        &self,
        weight: impl Fn(Place) -> Result<OnHost, Error>,
        values: impl Fn(Place) -> Result<Vec<f32>, Error>,
    ) -> Result<HostExpert, Error> {
        let weight = |slot| self.weight(self.place(slot), weight(self.place(slot))?);
        let bias = |slot| {
            let at = self.place(slot);
            let there = self.plan.targets.contains_key(&at);
            let data = |values: Vec<f32>| {
                let count = values.len();
                TensorData::new(values, [count]).convert_dtype(self.options.dtype)
            };
            there.then(|| values(at).map(data)).transpose()
        };
        Ok(HostExpert {
            w_in: weight(Slot::ExpertsIn)?,
            b_in: bias(Slot::ExpertsInBias)?,
            w_out: weight(Slot::ExpertsOut)?,
            b_out: bias(Slot::ExpertsOutBias)?,
        })
    }

    /// The weight of one expert as a layer keeps it on the host.
    fn weight(&self, at: Place, read: OnHost) -> Result<HostWeight, Error> {
        let [_, rows, columns] = self.host().extents(at);
        Ok(match read {
            OnHost::Codes(read) => {
                let layout = Fp8Layout {
                    shape: [1, rows, columns],
                    scheme: read.scheme,
                };
                HostCodes::new(&read.codes, &read.scales, layout, at.slot.parts())?.into()
            }
            OnHost::Blocks(Blocks { words, layout, .. }) => {
                HostBlocks::new(words, layout, self.options.dtype)?.into()
            }
            OnHost::Values(values) => {
                let (bytes, _, dtype) = values.into_parts();
                let values = TensorData::from_bytes(bytes, [rows, columns], dtype);
                values.convert_dtype(self.options.dtype).into()
            }
        })
    }
}

impl ExpertSource for ExpertsInFiles {
    fn blank(&self) -> Result<HostExpert, moebius::Error> {
        let rows = |at| self.host().extents(at)[1];
        let zeros = self.expert(|at| Ok(self.host().blank(at)), |at| Ok(vec![0.0; rows(at)]));
        zeros.map_err(unread)
    }

    fn read(&self, expert: usize) -> Result<HostExpert, moebius::Error> {
        let (host, of) = (self.host(), expert..expert + 1);
        let read = self.expert(
            |at| host.weight(at, of.clone(), &mut |_| ()),
            |at| values_in(host.reader, host.plan, at, of.clone(), &mut |_| ()),
        );
        read.map_err(unread)
    }

    fn expect(&self, experts: &[usize]) {
        let reader = self.files.checkpoint();
        let places = [Slot::ExpertsIn, Slot::ExpertsOut].map(|slot| self.place(slot));
        for &expert in experts {
            let targets = places.iter().filter_map(|at| self.plan.targets.get(at));
            for piece in targets.flat_map(|target| &target.pieces) {
                let bytes = reader.get(&piece.name).map_or(0, |info| info.bytes);
                match piece.expert {
                    Some(of) if of == expert => reader.expect(&piece.name, 0..bytes),
                    Some(_) => {}
                    None => {
                        let each = bytes / self.experts.max(1) as u64;
                        let begin = each * expert as u64;
                        reader.expect(&piece.name, begin..begin + each);
                    }
                }
            }
        }
    }

    fn bytes_of_each(&self) -> u64 {
        self.bytes_of_each
    }
}

/// The error of a layer whose experts can't be read; an error of the layer itself stays as it is.
fn unread(error: Error) -> moebius::Error {
    match error {
        Error::Moebius(error) => error,
        other => moebius::Error::unread(other),
    }
}

/// Names the layer alone: a plan has a line for each tensor.
impl fmt::Debug for ExpertsInFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = f.debug_struct("ExpertsInFiles");
        names
            .field("layer", &self.layer)
            .field("experts", &self.experts);
        names.finish_non_exhaustive()
    }
}
