//! The tables with a row for each token: the embedding and the head, as values or in blocks of codes.

use burn::tensor::{Int, Tensor};
use moebius::{blocks, nn};

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
            Some(blocks) => Ok(blocks.rows(tokens)?),
            None => Ok(self.embedding.val().select(0, tokens)),
        }
    }

    /// The product \[T, V\] of x \[T, H\] and the matrix of the head.
    pub(super) fn of_vocabulary(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        let in_blocks = match &self.head {
            Some(_) => None,
            None => self.head_blocks.as_ref().or(self.embedding_blocks.as_ref()),
        };
        if let Some(head) = in_blocks {
            return Ok(blocks::linear(x, head)?);
        }
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        Ok(nn::linear(x, head.val(), None)?)
    }
}
