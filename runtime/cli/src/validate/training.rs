//! Whether a model in training finds the tokens of a text as likely as the engine that serves it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use burn::tensor::Device as BurnDevice;
use moebius::attention::CacheFormat;
use moebius_device::Device;
use moebius_engine::{
    Allowed, Constraint, ConstraintError, Ended, Engine, EngineOptions, Event, Generation, History,
    Limits, PAGE, Sampling, SamplingOptions,
};
use moebius_model::Error;
use moebius_model::decoder::Model;
use moebius_model::load::LoadOptions;

use super::model::Work;
use crate::certificate::{Found, Reading, Unlike};
use crate::error::CliError;
use crate::published::shown;
use crate::screen::Screen;

/// Headings of [`row`].
pub(super) const READINGS: &str =
    "prompt | tokens | equal bits | largest difference | first that differs";

/// Most tokens of an engine's step: prompts are read in pieces.
const PIECE: usize = 7;

/// Largest difference of log-probabilities that counts as the same on XLA, whose order of sums depends on the program. On all other devices the
/// bits are equal.
const APART_ON_XLA: f64 = 1e-5;

/// Has a device compute how likely the tokens of the text are, by an engine and by a training's forward pass, one model after the other. Weights
/// are floating point: codes in FP8 don't train.
pub(super) fn check(
    work: &Work,
    name: Device,
    device: &BurnDevice,
    screen: &Screen,
) -> Result<Found, CliError> {
    let limit = match name {
        Device::Xla(..) => APART_ON_XLA,
        _ => 0.0,
    };
    let mut readings = Vec::new();
    // The first token is given, so that another one must follow.
    if work.ids.len() > 1 {
        let load = |device: &BurnDevice| {
            let options = LoadOptions {
                keep_fp8: false,
                ..LoadOptions::default()
            };
            shown(screen, |progress| {
                work.source.files.load(device, options, progress)
            })
        };
        let reads = served(load(device)?, &work.ids, device)?;
        let trained = trained(&load(&device.clone().autodiff())?, &work.ids)?;
        let reads = reads.iter();
        readings.extend(reads.map(|read| compared(read, &work.ids, &trained)));
    }
    Ok(Found::Training { limit, readings })
}

/// The log-probabilities that an engine found for the tokens after a prompt of the text.
struct Read {
    /// Number of tokens of the prompt.
    prompt: usize,
    found: Vec<f32>,
}

/// A text as the only answer: its tokens in their order, whatever the model would choose.
#[derive(Clone, Debug)]
struct Dictated(VecDeque<u32>);

impl Constraint for Dictated {
    fn allowed(&mut self) -> Result<Allowed, ConstraintError> {
        Ok(self.0.front().copied().into_iter().collect())
    }

    fn push(&mut self, id: u32) -> Result<bool, ConstraintError> {
        match self.0.pop_front() {
            Some(next) if next == id => Ok(self.0.is_empty()),
            next => Err(ConstraintError::new(format!(
                "expected the text's next token, {next:?}, got {id}"
            ))),
        }
    }

    fn copied(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}

/// A choice that tells the log-probability of what it chose.
fn sampling() -> Result<Sampling, CliError> {
    Ok(Sampling::new(SamplingOptions {
        temperature: 0.0,
        logprobs: Some(0),
        ..SamplingOptions::default()
    })?)
}

/// Has an engine read a text of at least two tokens in two requests at once: a token at a time from the first on, and half of the text as a prompt
/// in pieces.
fn served(model: Model, ids: &[u32], device: &BurnDevice) -> Result<Vec<Read>, CliError> {
    let prompts = BTreeSet::from([1, (ids.len() / 2).max(1)]);
    let limits = Limits {
        pages: 3 * ids.len().div_ceil(PAGE),
        batch_tokens: PIECE,
        running: 2,
        longest: ids.len(),
    };
    let mut engine = Engine::new(model, EngineOptions::new(limits).reserved(), device)?;
    let mut reads = BTreeMap::new();
    for prompt in prompts {
        let (given, rest) = ids.split_at(prompt);
        let dictated = Dictated(rest.iter().copied().collect());
        let request = Generation::new(given.to_vec(), rest.len())
            .with_sampling(sampling()?)
            .with_constraint(Box::new(dictated));
        let found = Vec::with_capacity(rest.len());
        reads.insert(engine.add(request)?, Read { prompt, found });
    }
    while !engine.is_idle() {
        for (id, event) in engine.step()? {
            match event {
                Event::Token(draw) => {
                    let logprobs = draw.logprobs.iter().map(|of| of.chosen);
                    if let Some(read) = reads.get_mut(&id) {
                        read.found.extend(logprobs);
                    }
                }
                Event::End(Ended::Stop | Ended::Length) => {}
                Event::End(Ended::Failed(error)) => return Err(error.into()),
                Event::End(Ended::NoRoom(error)) => return Err(error.into()),
            }
        }
    }
    Ok(reads.into_values().collect())
}

/// The log-probabilities of all tokens of a text but the first in a training's forward pass.
fn trained(model: &Model, ids: &[u32]) -> Result<Vec<f32>, CliError> {
    let device = model.embedding.val().device();
    let tokens = model.tokens(&ids[..ids.len() - 1], &device)?;
    let out = model.forward_as_served(tokens, CacheFormat::F32, ids.len())?;
    let [_, _, width] = out.logits.dims();
    let data = out.logits.try_into_data();
    let data = data.map_err(|error| Error::Device(error.to_string()))?;
    let logits: Vec<f32> = data.iter().collect();
    let (sampling, nothing) = (sampling()?, History::new(&[]));
    let mut found = Vec::with_capacity(ids.len());
    for (logits, id) in logits.chunks(width).zip(&ids[1..]) {
        let only: Allowed = [*id].into_iter().collect();
        let draw = sampling.sample_among(Some(&only), logits, &nothing, 0)?;
        found.extend(draw.logprobs.iter().map(|of| of.chosen));
    }
    Ok(found)
}

/// What training and an engine found of the tokens after a prompt. `trained` is of all tokens but the first.
fn compared(read: &Read, ids: &[u32], trained: &[f32]) -> Reading {
    let trained = &trained[read.prompt - 1..];
    let pairs = || trained.iter().copied().zip(read.found.iter().copied());
    let same = |pair: (f32, f32)| pair.0.to_bits() == pair.1.to_bits();
    let apart = pairs().map(|pair| {
        let [training, engine] = [pair.0, pair.1].map(f64::from);
        if same(pair) {
            0.0
        } else {
            (training - engine).abs()
        }
    });
    let finite = |value: f32| value.is_finite().then_some(f64::from(value));
    let first = pairs().zip(read.prompt..).find(|(pair, _)| !same(*pair));
    Reading {
        prompt: read.prompt,
        tokens: trained.len(),
        equal: pairs().filter(|pair| same(*pair)).count(),
        first: first.map(|((training, engine), position)| Unlike {
            position,
            token: ids[position],
            training: finite(training),
            engine: finite(engine),
        }),
        largest: apart.max_by(f64::total_cmp).filter(|far| far.is_finite()),
    }
}

/// A reading's row of a table; [`READINGS`] names the cells.
pub(super) fn row(of: &Reading) -> Vec<String> {
    let first = of.first.as_ref().map_or_else(String::new, unlike);
    let counts = [of.prompt, of.tokens, of.equal].map(|count| count.to_string());
    let mut cells = Vec::from(counts);
    cells.extend([difference(of.largest), first]);
    cells
}

/// What was found, in words.
pub(super) fn answer(limit: f64, readings: &[Reading]) -> String {
    let tokens: usize = readings.iter().map(|of| of.tokens).sum();
    if tokens == 0 {
        return "undecided: a text of one token has nothing to compare".to_owned();
    }
    let equal: usize = readings.iter().map(|of| of.equal).sum();
    let mut said = format!("{equal} of {tokens} log-probabilities have the engine's bits");
    if let Some(first) = readings.iter().find_map(|of| of.first.as_ref()) {
        said += &format!("; the first other: {}", unlike(first));
    }
    if limit > 0.0 {
        said += &format!("; at most {limit:.0e} apart counts as the same");
    }
    said
}

/// The largest difference of all readings.
pub(super) fn furthest(readings: &[Reading]) -> String {
    let far = |of: &&Reading| of.largest.unwrap_or(f64::INFINITY);
    let most = readings.iter().max_by(|a, b| far(a).total_cmp(&far(b)));
    most.map_or_else(String::new, |of| {
        format!("{} (log-probability)", difference(of.largest))
    })
}

/// A token of which training and engine say something else.
fn unlike(of: &Unlike) -> String {
    let [training, engine] = [of.training, of.engine]
        .map(|value| value.map_or_else(|| "none".to_owned(), |value| value.to_string()));
    let (position, token) = (of.position, of.token);
    format!("token {position}, {token}: {training} in training, {engine} served")
}

/// A difference; – for one that isn't finite.
fn difference(value: Option<f64>) -> String {
    match value {
        Some(value) if value != 0.0 => format!("{value:.1e}"),
        Some(_) => "0".to_owned(),
        None => "–".to_owned(),
    }
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "training_tests.rs"]
mod tests;
