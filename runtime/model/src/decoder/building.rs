//! A model that gets its weights layer by layer.

use std::ops::ControlFlow;

use burn::module::Param;
use burn::tensor::Tensor;
use moebius::in_large_pages;

use super::Model;
use super::block::Block;
use super::slot::Slot;
use super::source::{Of, Weights};
use super::spec::ModelSpec;
use crate::error::Error;

/// A decoder of which some layers have their weights.
#[derive(Debug)]
pub struct Building {
    spec: ModelSpec,
    embedding: Option<Param<Tensor<2>>>,
    positions: Option<Param<Tensor<2>>>,
    blocks: Vec<Block>,
}

impl Building {
    /// One without any weight.
    pub fn new(spec: &ModelSpec) -> Self {
        Self {
            spec: spec.clone(),
            embedding: None,
            positions: None,
            blocks: Vec::with_capacity(spec.layers.len()),
        }
    }

    /// Takes the weights of the next part: of embedding and positions, then of each layer, at last of what comes behind them, after which the model is
    /// complete.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn go_on(mut self, weights: &mut dyn Weights) -> Result<ControlFlow<Model, Self>, Error> {
        let number = self.blocks.len();
        let mut from = Of {
            weights,
            spec: &self.spec,
            layer: 0,
        };
        let Some(embedding) = self.embedding else {
            let embedding = from.matrix(Slot::Embedding)?;
            self.positions = from.matrix_if(Slot::Positions)?.map(in_large_pages);
            self.embedding = Some(in_large_pages(embedding));
            return Ok(ControlFlow::Continue(self));
        };
        if let Some(layer) = self.spec.layers.get(number) {
            from.layer = number;
            let block = Block::load(layer, &mut from)?;
            self.blocks.push(in_large_pages(block));
            self.embedding = Some(embedding);
            return Ok(ControlFlow::Continue(self));
        }
        Ok(ControlFlow::Break(Model {
            embedding,
            positions: self.positions,
            blocks: self.blocks,
            norm: from.norm(Slot::Norm, self.spec.epsilon)?,
            head: from.matrix_if(Slot::Head)?.map(in_large_pages),
            spec: self.spec,
        }))
    }
}
