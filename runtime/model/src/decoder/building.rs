//! [`Building`]: a decoder that takes its weights part by part.

use std::ops::ControlFlow;

use burn::module::Param;
use burn::tensor::Tensor;
use moebius::in_large_pages;

use super::Model;
use super::block::Block;
use super::slot::Slot;
use super::spec::{FeedForwardSpec, ModelSpec};
use super::weights::{Of, Table, Weights};
use crate::error::Error;

/// A decoder that is being built, with the weights of some layers.
#[derive(Debug)]
pub struct Building {
    spec: ModelSpec,
    embedding: Option<Table>,
    positions: Option<Param<Tensor<2>>>,
    blocks: Vec<Block>,
    /// Bytes of the device for the experts of each layer, if they are in host memory or in files.
    expert_bytes: Option<u64>,
}

impl Building {
    /// A decoder without any weights yet.
    pub fn new(spec: &ModelSpec) -> Self {
        Self {
            spec: spec.clone(),
            embedding: None,
            positions: None,
            blocks: Vec::with_capacity(spec.layers.len()),
            expert_bytes: None,
        }
    }

    /// This decoder with experts in host memory, or in files where the weights give them so ([`Weights::experts`]), and places for them in at most
    /// `bytes` bytes of the device, the same for each layer that has experts; for `None` all experts are on the device.
    #[must_use]
    pub fn with_expert_cache(self, bytes: Option<u64>) -> Self {
        let layers = self.spec.layers.iter();
        let layers = layers
            .filter(|layer| matches!(layer.feed_forward, FeedForwardSpec::Experts(_)))
            .count() as u64;
        Self {
            expert_bytes: bytes.map(|bytes| bytes / layers.max(1)),
            ..self
        }
    }

    /// Takes the weights of all parts that are missing.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn finish(self, weights: &mut dyn Weights) -> Result<Model, Error> {
        let mut building = self;
        loop {
            match building.go_on(weights)? {
                ControlFlow::Continue(more) => building = more,
                ControlFlow::Break(model) => return Ok(model),
            }
        }
    }

    /// Takes the weights of the next part: first the embedding and positions, then each layer, at last the final norm and the head, which
    /// complete the model.
    ///
    /// # Errors
    /// As [`Model::load`], and [`Error::Moebius`] for a cache of experts with room for less than two of a layer.
    pub fn go_on(mut self, weights: &mut dyn Weights) -> Result<ControlFlow<Model, Self>, Error> {
        let number = self.blocks.len();
        let mut from = Of {
            weights,
            spec: &self.spec,
            layer: 0,
            expert_bytes: self.expert_bytes,
        };
        let Some(embedding) = self.embedding else {
            let embedding = in_large_pages(from.table(Slot::Embedding)?);
            self.positions = from.matrix_if(Slot::Positions)?.map(in_large_pages);
            self.embedding = Some(embedding);
            return Ok(ControlFlow::Continue(self));
        };
        if let Some(layer) = self.spec.layers.get(number) {
            from.layer = number;
            let block = Block::load(layer, &mut from)?;
            self.blocks.push(in_large_pages(block));
            self.embedding = Some(embedding);
            return Ok(ControlFlow::Continue(self));
        }
        let (embedding, embedding_blocks) = embedding;
        let head = from.table_if(Slot::Head)?.map(in_large_pages);
        let (head, head_blocks) = head.unzip();
        let head_blocks = head_blocks.flatten();
        Ok(ControlFlow::Break(Model {
            embedding,
            embedding_blocks,
            positions: self.positions,
            blocks: self.blocks,
            norm: from.norm(Slot::Norm, self.spec.epsilon)?,
            head: head.filter(|_| head_blocks.is_none()),
            head_blocks,
            spec: self.spec,
            exact: false,
            products: None,
        }))
    }
}
