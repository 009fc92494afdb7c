//! A forward pass of whole sequences, one part after another.

use burn::tensor::{Int, Tensor};
use moebius::in_span;
use moebius::moe::Routing;
use tracing::trace_span;

use super::block::LayerGiven;
use super::rope::{Angles, Places};
use super::watch::{Taken, Watch};
use super::{Given, Model, whole};
use crate::error::Error;

/// The parts of [`Model::forward`]: the embedding, each layer, and the head.
pub(crate) struct Parts<'a> {
    model: &'a Model,
    places: Places,
    angles: Angles,
}

impl Model {
    /// The parts of a forward pass of `tokens` \[B, S\], at least one.
    ///
    /// # Errors
    /// As [`Model::forward`].
    pub(crate) fn parts(&self, tokens: &Tensor<2, Int>) -> Result<Parts<'_>, Error> {
        let (device, rows) = (self.embedding.val().device(), tokens.shape().num_elements());
        moebius::reduce::check_rows("training", rows, &device)?;
        let places = whole(tokens);
        let angles = self.angles(&places);
        Ok(Parts {
            model: self,
            places,
            angles,
        })
    }

    /// What the embedding, each layer and the head take in a forward pass of `tokens` \[B, S\], at least one, that waits for the device behind each.
    ///
    /// # Errors
    /// As [`Model::forward`], and [`Error::Device`] when the device failed.
    pub(crate) fn forward_waiting(&self, tokens: Tensor<2, Int>) -> Result<Vec<Taken>, Error> {
        let (device, places) = (tokens.device(), whole(&tokens));
        let mut watch = Watch::begin(&device)?;
        let given = Given {
            watch: Some(&mut watch),
            ..Given::default()
        };
        // The logits are dropped after the wait: a lazy device leaves out the work for a tensor that is gone.
        let logits = self.run(tokens, &places, given)?;
        watch.ended(&device)?;
        drop(logits);
        Ok(watch.taken())
    }
}

impl Parts<'_> {
    /// x \[B · S, H\] of the tokens.
    pub(crate) fn embedded(&self, tokens: Tensor<2, Int>) -> Result<Tensor<2>, Error> {
        let rows = self.model.rows(tokens.flatten(0, 1))?;
        self.model.embedded(rows, &self.places)
    }

    /// x \[B · S, H\] after a layer, and the experts that the tokens went to.
    pub(crate) fn layer(
        &self,
        number: usize,
        x: Tensor<2>,
    ) -> Result<(Tensor<2>, Option<Routing>), Error> {
        let (device, block) = (x.device(), self.model.block(number));
        let given = LayerGiven {
            cache: None,
            along: None,
            states: None,
            next: None,
        };
        let layer = || block.forward(x, &self.places, &self.angles, given);
        let found = in_span(trace_span!("layer", number), &device, layer)?;
        moebius::keep_pace(&device)?;
        Ok(found)
    }

    /// Logits \[B · S, V\] of x after the last layer.
    pub(crate) fn logits(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        self.model.logits(x)
    }
}
