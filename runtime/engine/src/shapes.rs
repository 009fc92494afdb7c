//! Calls of a model, and the few shapes that they are filled up to where each shape is a program to compile.

use burn::tensor::{Device, Int, Tensor, TensorData};
use moebius::attention::Span;
use moebius::pad::{self, Buckets};
use moebius_model::Error;
use moebius_model::decoder::{Cache, FeedForward, Logits, Model};

use crate::schedule::Limits;

/// Smallest number of tokens that a part of a prompt is filled up to.
const LEAST: usize = 8;

/// Most sizes of passes without a cache, and most tokens that fill them up for each that was given.
const SIZES: usize = 12;
const WASTE: f64 = 0.15;

/// The shapes that calls are filled up to.
#[derive(Clone, Debug)]
pub(crate) struct Shapes {
    /// Numbers of tokens of a sequence.
    tokens: Buckets,
    /// Numbers of sequences.
    sequences: Buckets,
    /// Numbers of tokens of a pass without a cache.
    whole: Buckets,
}

impl Shapes {
    pub(crate) fn new(limits: &Limits) -> Result<Self, Error> {
        Ok(Self {
            tokens: Buckets::doubling(LEAST, limits.batch_tokens)?,
            sequences: Buckets::doubling(1, limits.running)?,
            whole: Buckets::new(1..=limits.longest, WASTE, SIZES)?,
        })
    }

    /// The shapes of a model's calls on a device that compiles each; `None` on other devices, and for experts in host memory or in files, which
    /// would be fetched for what fills up.
    pub(crate) fn of(
        model: &Model,
        limits: &Limits,
        device: &Device,
    ) -> Result<Option<Self>, Error> {
        let mut blocks = model.blocks.iter();
        let fetches = blocks.any(|of| matches!(of.feed_forward, FeedForward::Switched(_)));
        let some = pad::is_needed(device) && !fetches;
        some.then(|| Self::new(limits)).transpose()
    }

    /// Numbers of tokens of the calls that compute so many tokens of one sequence.
    pub(crate) fn parts(&self, tokens: usize) -> Vec<usize> {
        self.tokens.parts(tokens)
    }

    /// The number of tokens that each sequence of a call is filled up to: a single one stays alone.
    pub(crate) fn tokens(&self, tokens: usize) -> Result<usize, Error> {
        if tokens == 1 {
            return Ok(1);
        }
        Ok(self.tokens.size(tokens)?)
    }

    /// The number of sequences that a call is filled up to.
    pub(crate) fn sequences(&self, sequences: usize) -> Result<usize, Error> {
        Ok(self.sequences.size(sequences)?)
    }

    /// Numbers of tokens of a pass without a cache.
    pub(crate) fn whole(&self) -> &Buckets {
        &self.whole
    }
}

/// New tokens of one sequence.
pub(crate) struct New<'a> {
    pub(crate) tokens: &'a [u32],
    pub(crate) span: Span<'a>,
}

/// Computes the logits after the last `last` of the new tokens of each sequence, of which all have as many; or any number where the call is
/// filled up to so many sequences and tokens.
pub(crate) fn compute(
    model: &Model,
    cache: &mut Cache,
    new: &[New<'_>],
    last: usize,
    filled: Option<[usize; 2]>,
    device: &Device,
) -> Result<Logits, Error> {
    let tokens = new.first().map_or(0, |of| of.tokens.len());
    let shape = filled.unwrap_or([new.len(), tokens]);
    let mut ids = vec![0; shape[0] * shape[1]];
    for (row, of) in ids.chunks_mut(shape[1].max(1)).zip(new) {
        for (id, token) in row.iter_mut().zip(of.tokens) {
            *id = *token as i32;
        }
    }
    let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, shape), device);
    let spans: Vec<Span<'_>> = new.iter().map(|of| of.span).collect();
    match filled {
        Some(_) => model.last_few_of_padded(ids, last, &spans, cache),
        None => model.last_few_of(ids, last, &spans, cache),
    }
}

/// Ends a call on a device that compiles what was recorded since the last end: the next call is a program of its own.
pub(crate) fn end(device: &Device) -> Result<(), Error> {
    let ended = device.sync();
    ended.map_err(|error| Error::Device(error.to_string()))
}
