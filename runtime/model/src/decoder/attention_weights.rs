//! What the tokens of a model attend to, for inspection.

use burn::tensor::{Int, Tensor};
use moebius_weights::Unfit;

use super::block::normed;
use super::{Given, Model, whole};
use crate::error::Error;

impl Model {
    /// Computes the weights \[B, heads, S, S\] by which the queries of layer `layer` attend to the keys of `tokens` \[B, S\], as
    /// [`Attend::weights`](moebius::attention::Attend::weights) does, in the dtype of the model. Later layers aren't computed.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), [`Error::Config`] for an exact model, for no tokens and for a layer that doesn't exist or has no attention, and
    /// [`Error::Moebius`] for more weights than [`Attend::weights`](moebius::attention::Attend::weights) computes.
    pub fn attention_weights(
        &self,
        tokens: Tensor<2, Int>,
        layer: usize,
    ) -> Result<Tensor<4>, Error> {
        let (what, expected) = ("attention weights", "a model that isn't exact");
        Error::check(!self.is_exact(), what, expected, "an exact one")?;
        let count = tokens.shape().num_elements();
        Error::check(count > 0, "tokens", "at least one", count)?;
        let there = layer < self.blocks.len();
        let block = there.then(|| self.block(layer));
        let found = block.as_deref();
        let found = found.and_then(|block| Some((block, block.attention.as_ref()?)));
        let Some((block, attention)) = found else {
            let expected = format!("one of {} that has an attention", self.blocks.len());
            return Err(Error::Config(Unfit::new("layer", expected, layer)));
        };
        let places = whole(&tokens);
        let given = Given {
            layers: Some(layer),
            ..Given::default()
        };
        let (x, _) = self.hidden(tokens, &places, given)?;
        let x = normed(block.attention_norm.as_ref(), x);
        attention.weights(x, &places, &self.angles(&places))
    }
}
