//! Perplexity of a model on a text, and the number of tokens that each expert gets.

use burn::tensor::{Device, FloatDType, Int, Tensor};
use moebius::attention::CacheFormat;
use moebius::moe::{LoadStatistics, Routing};
use moebius::reduce::{log_softmax, mean_dim, sum_dim};
use serde::Serialize;

use crate::dataset::Dataset;
use crate::decoder::{FeedForwardSpec, Model, ModelSpec};
use crate::error::Error;

/// How a text is cut into windows: a window sees its own tokens only, and a token that two windows share is judged by the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    context: usize,
    stride: usize,
}

impl Windows {
    /// Windows of `context` tokens, each `stride` tokens after the one before. A smaller stride gives each judged token more context, and
    /// costs more computation.
    ///
    /// # Errors
    /// [`Error::Config`] for a context below two tokens, and a stride that is 0 or skips tokens.
    pub fn new(context: usize, stride: usize) -> Result<Self, Error> {
        Error::check(context >= 2, "tokens of a window", "2 or more", context)?;
        // A window can't predict its own first token.
        let expected = format!("1 to {}", context - 1);
        let fits = (1..context).contains(&stride);
        Error::check(fits, "tokens from window to window", expected, stride)?;
        Ok(Self { context, stride })
    }

    /// The windows over `tokens` tokens: first token, end, and the number of last tokens that the window judges.
    fn over(self, tokens: usize) -> Vec<[usize; 3]> {
        let (mut windows, mut judged) = (Vec::new(), 1);
        for first in (0..).step_by(self.stride) {
            let end = (first + self.context).min(tokens);
            windows.push([first, end, end - judged]);
            judged = end;
            if end == tokens {
                break;
            }
        }
        windows
    }
}

/// Result of evaluating a model on a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Perplexity {
    /// Predicted tokens: all but the first.
    pub tokens: usize,
    /// Mean negative log probability of the predicted tokens, in nats per token.
    pub nats: f64,
}

impl Perplexity {
    /// Computes the perplexity of `model`, whose weights are on `device`, on the text `ids`. After each window, `progress` gets the number
    /// of tokens judged so far.
    ///
    /// Perplexity is exp(−1/N Σ log p(tᵢ | tokens before it in its window)), logarithms in f32 and the sum of windows in f64.
    ///
    /// # Errors
    /// [`Error::Config`] for fewer than two tokens, for a token that isn't in the model's vocabulary, and for a result that isn't finite;
    /// [`Error::Moebius`] and [`Error::Device`] when the device can't compute.
    pub fn of(
        model: &Model,
        ids: &[u32],
        windows: Windows,
        device: &Device,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Self, Error> {
        let tokens = sequence(model, ids, device)?;
        Self::over(tokens, windows, progress, &mut |tokens| {
            Ok(model.forward(tokens)?.logits)
        })
    }

    /// Like [`Perplexity::of`], and adds to `experts` which tokens went to which expert. Tokens of all windows count, so a token in two
    /// windows counts twice.
    ///
    /// # Errors
    /// As [`Perplexity::of`].
    pub fn with_experts(
        model: &Model,
        ids: &[u32],
        windows: Windows,
        device: &Device,
        experts: &mut ExpertLoad,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Self, Error> {
        let tokens = sequence(model, ids, device)?;
        Self::over(tokens, windows, progress, &mut |tokens| {
            let found = model.forward(tokens)?;
            experts.add(&found.routing)?;
            Ok(found.logits)
        })
    }

    /// Like [`Perplexity::of`], by the steps of an engine whose cache has this format: what keys and values are rounded to counts, too.
    ///
    /// # Errors
    /// As [`Perplexity::of`] and [`Model::forward_as_served`].
    pub fn served(
        model: &Model,
        ids: &[u32],
        windows: Windows,
        format: CacheFormat,
        device: &Device,
    ) -> Result<Self, Error> {
        let tokens = sequence(model, ids, device)?;
        Self::over(tokens, windows, &mut |_| (), &mut |tokens| {
            let [_, longest] = tokens.dims();
            Ok(model.forward_as_served(tokens, format, longest)?.logits)
        })
    }

    /// Computes the perplexity of `model`, whose weights are on `device`, on the tokens of samples that are learnt; each is judged by the tokens
    /// before it in its sample. After each sequence, `progress` gets the number of tokens judged so far.
    ///
    /// # Errors
    /// As [`Perplexity::of`] and [`Model::forward_documents`].
    pub fn of_samples(
        model: &Model,
        samples: &Dataset,
        device: &Device,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Self, Error> {
        let ids: Vec<u32> = samples.ids().collect();
        model.spec().check_tokens(&ids)?;
        let mut sum = Self {
            tokens: 0,
            nats: 0.0,
        };
        for sequence in 0..samples.sequences() {
            let batch = samples.batch(&[sequence], device)?;
            let logits = model.forward_documents(batch.tokens, &batch.documents)?;
            let [_, seen, words] = logits.logits.dims();
            let rows = logits.logits.reshape([seen, words]);
            sum.nats += read(weighted_cross_entropy(
                rows,
                batch.targets,
                batch.weights,
                1,
            ))?;
            sum.tokens += batch.learnt;
            progress(sum.tokens);
        }
        sum.mean()
    }

    /// The perplexity of `tokens` \[1, S\] by the logits that `forward` computes.
    fn over(
        tokens: Tensor<2, Int>,
        windows: Windows,
        progress: &mut dyn FnMut(usize),
        forward: &mut Forward<'_>,
    ) -> Result<Self, Error> {
        let [_, count] = tokens.dims();
        let mut sum = Self {
            tokens: 0,
            nats: 0.0,
        };
        for [first, end, judged] in windows.over(count) {
            let window = tokens.clone().slice([0..1, first..end]);
            sum.nats += nats(window, judged, forward)?;
            sum.tokens += judged;
            progress(sum.tokens);
        }
        sum.mean()
    }

    /// The mean of a sum of nats.
    fn mean(self) -> Result<Self, Error> {
        let nats = self.nats / self.tokens as f64;
        let finite = nats.is_finite();
        Error::check(finite, "nats a token", "a finite number", nats)?;
        Ok(Self { nats, ..self })
    }

    /// Perplexity: exp of [`nats`](Self::nats), the number of equally likely tokens that the model hesitates between.
    pub fn perplexity(self) -> f64 {
        self.nats.exp()
    }
}

/// The text as one sequence \[1, S\] on the device, if it has a token to predict.
fn sequence(model: &Model, ids: &[u32], device: &Device) -> Result<Tensor<2, Int>, Error> {
    Error::check(ids.len() >= 2, "tokens of the text", "2 or more", ids.len())?;
    model.tokens(ids, device)
}

/// Function that computes the logits \[1, S, V\] of tokens \[1, S\].
type Forward<'a> = dyn FnMut(Tensor<2, Int>) -> Result<Tensor<3>, Error> + 'a;

/// The sum of the nats of the last `judged` of `tokens` \[1, S\].
fn nats(tokens: Tensor<2, Int>, judged: usize, forward: &mut Forward<'_>) -> Result<f64, Error> {
    let [_, count] = tokens.dims();
    let seen = count - 1;
    let logits = forward(tokens.clone().slice([0..1, 0..seen]))?;
    let [_, _, words] = logits.dims();
    let rows = logits.reshape([seen, words]);
    let rows = rows.slice([seen - judged..seen, 0..words]);
    let next = tokens.slice([0..1, count - judged..count]);
    read(sum_dim(log_likelihoods(rows, next), 1).neg())
}

/// Reads a sum of a single number from the device.
fn read<const D: usize>(sum: Tensor<D>) -> Result<f64, Error> {
    Error::guarded(|| {
        let data = sum.try_into_data().map_err(Error::device)?;
        let read = data.iter::<f64>().next();
        read.ok_or_else(|| Error::device("the sum of a window is missing"))
    })
}

/// The log probability \[1, n\] in f32 of each of the classes `chosen` \[n\] by its row of `logits` \[n, classes\].
///
/// The result is one row, because a sum along an axis has a fixed order, while a sum of everything adds atomically on some devices.
pub(crate) fn log_likelihoods<const D: usize>(
    logits: Tensor<2>,
    chosen: Tensor<D, Int>,
) -> Tensor<2> {
    let [rows, _] = logits.dims();
    let (logits, chosen) = (logits.cast(FloatDType::F32), chosen.reshape([rows, 1]));
    log_softmax(logits, 1).gather(1, chosen).reshape([1, rows])
}

/// The mean cross entropy \[1\], in nats.
pub(crate) fn cross_entropy<const D: usize>(
    logits: Tensor<2>,
    chosen: Tensor<D, Int>,
) -> Tensor<1> {
    let mean = mean_dim(log_likelihoods(logits, chosen), 1);
    mean.neg().reshape([1])
}

/// The share \[1\] of some rows in a mean cross entropy over `count` rows, in nats; rows count by their `weights` \[1, n\].
pub(crate) fn weighted_cross_entropy(
    logits: Tensor<2>,
    chosen: Tensor<2, Int>,
    weights: Tensor<2>,
    count: usize,
) -> Tensor<1> {
    let weighted = log_likelihoods(logits, chosen) * weights;
    let mean = sum_dim(weighted, 1).div_scalar(count as f64);
    mean.neg().reshape([1])
}

/// Counts of the tokens of each expert, summed on the device over any number of forward passes, up to 2³¹ − 1 each. Nothing is read back
/// before [`read`](Self::read).
#[derive(Clone, Debug)]
pub struct ExpertLoad {
    /// Indices of the layers that have experts.
    layers: Vec<usize>,
    /// Token counts \[E\] of each of these layers; empty before the first forward pass.
    sums: Vec<Tensor<1, Int>>,
}

/// Token counts of the experts of one layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerTokens {
    /// Index of the layer in the model.
    pub layer: usize,
    /// Tokens of each expert; a token that goes to k experts counts at each of them.
    pub tokens: Vec<u64>,
}

impl ExpertLoad {
    /// An empty count for forward passes of the model that `spec` describes; `None` where no layer has experts.
    pub fn of(spec: &ModelSpec) -> Option<Self> {
        let layers = spec.layers.iter().enumerate();
        let mixed = layers
            .filter(|(_, layer)| matches!(layer.feed_forward, FeedForwardSpec::Experts(_)))
            .map(|(number, _)| number);
        let layers: Vec<usize> = mixed.collect();
        let sums = Vec::new();
        (!layers.is_empty()).then_some(Self { layers, sums })
    }

    /// Adds the routing that a forward pass returned.
    ///
    /// # Errors
    /// [`Error::Config`] for the routing of other layers, [`Error::Moebius`] when the device can't count.
    pub fn add(&mut self, routing: &[Routing]) -> Result<(), Error> {
        let (expected, got) = (self.layers.len(), routing.len());
        Error::check(got == expected, "layers with experts", expected, got)?;
        let loads = routing.iter().map(Routing::load);
        let loads = loads.collect::<Result<Vec<_>, _>>()?;
        self.sums = if self.sums.is_empty() {
            loads
        } else {
            let sums = std::mem::take(&mut self.sums).into_iter().zip(loads);
            sums.map(|(sum, load)| sum + load).collect()
        };
        Ok(())
    }

    /// Reads the counts of the layers that have experts, and waits for the device; empty before the first forward pass.
    ///
    /// # Errors
    /// [`Error::Moebius`] when the device failed.
    pub fn read(&self) -> Result<Vec<LayerTokens>, Error> {
        let sums = self.layers.iter().zip(&self.sums);
        let read = sums.map(|(&layer, sum)| {
            let tokens = LoadStatistics::read(sum.clone())?.counts;
            Ok(LayerTokens { layer, tokens })
        });
        read.collect()
    }
}
