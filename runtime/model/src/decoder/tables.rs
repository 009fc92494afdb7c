//! The tables with a row for each token: the embedding and the head, as values or in blocks of codes.

use burn::tensor::{Int, Tensor};
use moebius::blocks::BlockTensor;
use moebius::{blocks, exact, nn};

use super::Model;
use crate::error::Error;

impl Model {
    /// The number of tokens: rows of the embedding, and logits of a token.
    pub fn vocabulary(&self) -> usize {
        match &self.embedding_blocks {
            Some(blocks) => blocks.layout().shape[1],
            None => self.embedding.dims()[0],
        }
    }

    /// The rows of the embedding of tokens \[T\].
    pub(super) fn rows(&self, tokens: Tensor<1, Int>) -> Result<Tensor<2>, Error> {
        match &self.embedding_blocks {
            Some(blocks) if self.is_exact() => Ok(exact::rows_in_blocks(blocks, tokens)?),
            Some(blocks) => Ok(blocks.rows(tokens)?),
            None => Ok(self.embedding.val().select(0, tokens)),
        }
    }

    /// The product \[T, V\] of x \[T, H\] and the matrix of the head.
    pub(super) fn of_vocabulary(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        if let Some(head) = self.head_in_blocks() {
            return Ok(blocks::linear(x, head)?);
        }
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        Ok(nn::linear(x, head.val(), None)?)
    }

    /// Does what [`Model::of_vocabulary`] does with the same bits on every device.
    pub(super) fn of_vocabulary_exactly(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        if let Some(head) = self.head_in_blocks() {
            return Ok(exact::linear_in_blocks(x, head, None)?);
        }
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        Ok(exact::linear(x, head.val(), None)?)
    }

    /// The head in blocks of codes, its own or the embedding's, if it is in blocks.
    fn head_in_blocks(&self) -> Option<&BlockTensor> {
        match &self.head {
            Some(_) => None,
            None => self.head_blocks.as_ref().or(self.embedding_blocks.as_ref()),
        }
    }
}
