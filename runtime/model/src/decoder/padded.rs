//! Passes over tokens that are filled up to one of few lengths.

use burn::tensor::{Device, Int, Tensor, TensorData};
use moebius::pad::Buckets;

use super::rope::Places;
use super::{Given, Logits, Model};
use crate::error::Error;

impl Model {
    /// Does what [`last_logits`](Self::last_logits) does with `ids` filled up to a size of `buckets`: on XLA, where each number of tokens is
    /// a program to compile, all lengths together need one program for each size.
    ///
    /// No token sees what comes after it, so the tokens that fill up change nothing. On Flex the logits have the bits of `last_logits`; on
    /// XLA they agree to 1e-5, because its order of summation depends on the program.
    ///
    /// # Errors
    /// As [`last_logits`](Self::last_logits), and [`Error::Moebius`] for a number of tokens that isn't among the lengths of `buckets`.
    pub fn last_logits_padded(
        &self,
        ids: &[u32],
        buckets: &Buckets,
        device: &Device,
    ) -> Result<Vec<f32>, Error> {
        if self.is_exact() {
            // XLA, for whose programs tokens are filled up, has no exact operations.
            return self.last_logits(ids, device);
        }
        let size = buckets.size(ids.len())?;
        let mut padded = ids.to_vec();
        padded.resize(size, 0);
        let tokens = self.tokens(&padded, device)?;
        let places = Places {
            first: vec![0],
            tokens: size,
            longest: ids.len(),
            packed: None,
        };
        // The last token's place is data: as the bound of a slice it would be part of the program.
        let last = TensorData::new(vec![ids.len() as i32 - 1], [1]);
        let last = Tensor::<1, Int>::from_data(last, device);
        let logits = moebius::on_workers(device, self.of_head(size), || {
            let (x, _) = self.hidden(tokens, &places, Given::default())?;
            self.logits(x.select(0, last))
        })?;
        let logits = logits.unsqueeze::<3>();
        let routing = Vec::new();
        Logits { logits, routing }.read_last()
    }
}
