//! The tables with a row for each token: the embedding and the head, as values or in blocks of codes, and learned positions.

use burn::tensor::{DType, Int, Tensor, TensorData};
use moebius::blocks::BlockTensor;
use moebius::{blocks, exact, nn};

use super::Model;
use super::rope::Places;
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

    /// x \[B · S, H\] of the tokens' rows of the embedding, with the learned positions of the tokens; rows beyond a sequence's tokens get
    /// positions, too. Sums are in the dtype of norms.
    pub(super) fn embedded(&self, rows: Tensor<2>, places: &Places) -> Result<Tensor<2>, Error> {
        let x = rows.cast(self.norm.gamma.val().dtype());
        let x = if self.spec.embedding_scale == 1.0 {
            x
        } else {
            x * self.spec.embedding_scale
        };
        let x = match self.learned(places)? {
            Some(learned) => {
                let ([rows, width], length) = (x.dims(), places.tokens);
                let x = x.reshape([rows / length, length, width]) + learned;
                x.reshape([rows, width])
            }
            None => x,
        };
        Ok(x.cast(self.dtype()))
    }

    /// Learned positions \[B or 1, S, H\] of the tokens; `None` for a model without any.
    pub(super) fn learned(&self, places: &Places) -> Result<Option<Tensor<3>>, Error> {
        let Some(learned) = &self.positions else {
            return Ok(None);
        };
        let (learned, length) = (learned.val(), places.tokens);
        let [most, width] = learned.dims();
        let (end, expected) = (places.end(), format_args!("at most {most}"));
        Error::check(end <= most, "sequence", expected, end)?;
        if places.packed.is_some() || places.counts.is_some() {
            // What fills up may lie behind the last position.
            let (sequences, positions) = places.positions();
            let positions = positions.into_iter().map(|at| at.min(most - 1) as i32);
            let at = TensorData::new(positions.collect::<Vec<i32>>(), [sequences * length]);
            let at = Tensor::from_data(at, (&learned.device(), DType::I32));
            let learned = learned.select(0, at).reshape([sequences, length, width]);
            return Ok(Some(learned));
        }
        let firsts = places.firsts().iter();
        let of = |&first: &usize| learned.clone().narrow(0, first, length).unsqueeze();
        let mut learned: Vec<Tensor<3>> = firsts.map(of).collect();
        // Joining one tensor would copy it.
        Ok(Some(match learned.len() {
            1 => learned.remove(0),
            _ => Tensor::cat(learned, 0),
        }))
    }

    /// The product \[T, V\] of x \[T, H\] and the matrix of the head.
    pub(super) fn of_vocabulary(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        if let Some(head) = self.head_in_blocks() {
            return Ok(blocks::linear(x, head)?);
        }
        let head = self.head.as_ref().unwrap_or(&self.embedding).val();
        let head = match self.products {
            Some(dtype) => head.cast(dtype),
            None => head,
        };
        Ok(nn::linear(x, head, None)?)
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
