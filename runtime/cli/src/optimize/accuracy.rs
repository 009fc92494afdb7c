//! Judges of what a model computes: part by part, and by the perplexity of a text, both against f32 on the same device.

use burn::tensor::Device;
use moebius::attention::CacheFormat;
use moebius_model::computation::{Computation, Distance, Greedy, parting};
use moebius_model::decoder::{Model, Routes};
use moebius_model::{Error, Perplexity, Windows};

use super::plan::Budget;
use super::search::Accuracy;

/// Number of the text's first tokens whose parts are compared.
const PARTS_OF: usize = 64;

/// Number of the text's first tokens whose perplexity is measured.
const TOKENS: usize = 1024;

/// Tokens of a window of the perplexity, in which half are judged.
const CONTEXT: usize = 512;

/// What f32 computes of a text.
pub(super) struct Judge {
    ids: Vec<u32>,
    windows: Windows,
    device: Device,
    /// The experts of the first tokens; `None` for a model without experts. All models go along these, because a token that rounding sends to
    /// another expert would hide all that is computed after it.
    routes: Option<Routes>,
    computation: Computation,
    perplexity: f64,
}

impl Judge {
    /// Computes what `model`, which is in f32 on `device`, makes of the first of the tokens `ids`.
    ///
    /// # Errors
    /// [`Error::Config`] for fewer than two tokens; the errors of [`Computation::served`] and [`Perplexity::served`].
    pub(super) fn new(model: &Model, ids: &[u32], device: &Device) -> Result<Self, Error> {
        let longest = model.spec().positions.max(2);
        let (context, format) = (CONTEXT.min(longest), CacheFormat::F32);
        let windows = Windows::new(context, (context / 2).max(1))?;
        let ids = ids[..ids.len().min(TOKENS)].to_vec();
        let first = &ids[..ids.len().min(PARTS_OF).min(longest)];
        let found = model.forward(model.tokens(first, device)?)?;
        let routes = found.routes(model.spec())?;
        let computation = Computation::served(model, first, format, routes.as_ref(), device)?;
        let perplexity = Perplexity::served(model, &ids, windows, format, device)?;
        Ok(Self {
            windows,
            device: device.clone(),
            routes,
            computation,
            perplexity: perplexity.perplexity(),
            ids,
        })
    }

    /// How far what `model` computes over a cache of this format is from f32. The perplexity is left out where a part is further away than the
    /// budget allows: what a wrong part makes of it tells nothing.
    ///
    /// # Errors
    /// As [`Judge::new`].
    pub(super) fn judge(
        &self,
        model: &Model,
        format: CacheFormat,
        budget: Budget,
    ) -> Result<Accuracy, Error> {
        let (first, routes) = (&self.ids[..self.computation.tokens], self.routes.as_ref());
        let found = Computation::served(model, first, format, routes, &self.device)?;
        let limits = budget.limits();
        let parts = Distance::between(&self.computation, &found, limits)?;
        let near = parting(&parts, limits).is_none();
        let served = || Perplexity::served(model, &self.ids, self.windows, format, &self.device);
        let perplexity = near.then(served).transpose()?;
        Ok(Accuracy {
            greedy: Greedy::first(&self.computation, &found),
            perplexity: perplexity.map(|of| of.perplexity() / self.perplexity - 1.0),
            parts,
        })
    }
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "accuracy_tests.rs"]
mod tests;
