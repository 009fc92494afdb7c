//! What a model computes for a text: in f64, and on devices.

use std::time::Instant;

use burn::tensor::Device as BurnDevice;
use moebius_model::Error;
use moebius_model::computation::{Computation, Distance, Greedy, Limits, parting};
use moebius_model::decoder::{Place as WeightPlace, Values};
use moebius_model::load::{FileValues, LoadOptions};

use crate::args::AnswerArgs;
use crate::certificate::{Found, Measured, OfModel, Place};
use crate::error::CliError;
use crate::published::{Source, shown};
use crate::screen::Screen;

/// The text that a model reads where none is given.
const TEXT: &str = "Call me Ishmael. Some years ago, never mind how long precisely, having little or no money in my purse, and nothing \
    particular to interest me on shore, I thought I would sail about a little and see the watery part of the world.";

/// A model, and the tokens that it reads.
pub(super) struct Work {
    source: Source,
    ids: Vec<u32>,
}

/// The parts that a device computed.
pub(super) struct Timed {
    pub(super) computation: Computation,
    /// Seconds of the forward pass, until all of it was read.
    pub(super) seconds: f64,
    /// Bytes in use on the device afterwards, where known.
    pub(super) memory_bytes: Option<u64>,
}

impl Work {
    /// Opens the model, or the bundled one, and reads the tokens.
    pub(super) fn read(args: &AnswerArgs) -> Result<Self, CliError> {
        let source = Source::open(args.model.as_deref())?;
        let text = args.tokens.as_deref().unwrap_or(TEXT);
        let ids = source.tokenizer.encode(text, true)?;
        if ids.is_empty() {
            let hint = "--tokens TEXT names another";
            return Err(CliError::usage("the text has no tokens", Some(hint)));
        }
        Ok(Self { source, ids })
    }

    /// What a certificate says of the work.
    pub(super) fn subject(&self, hash: String) -> OfModel {
        OfModel {
            name: self.source.name().to_owned(),
            family: self.source.files.family().to_owned(),
            hash,
            tokens: self.ids.clone(),
        }
    }

    /// Computes the parts in f64, and the hash of the model on the way.
    pub(super) fn reference(&self, screen: &Screen) -> Result<(Computation, String), CliError> {
        let (files, spinner) = (&self.source.files, screen.spinner());
        spinner.set_message("the reference in f64");
        let mut hasher = blake3::Hasher::new();
        hasher.update(&serde_json::to_vec(files.spec())?);
        let mut values = Hashed {
            values: files.values(),
            hasher,
        };
        let computation = Computation::reference(files.spec(), &mut values, &self.ids);
        spinner.finish_and_clear();
        Ok((computation?, values.hasher.finalize().to_hex().to_string()))
    }

    /// Computes the parts on a device, in f32 but for weights in FP8.
    pub(super) fn compute(&self, device: &BurnDevice, screen: &Screen) -> Result<Timed, CliError> {
        let files = &self.source.files;
        let model = shown(screen, |progress| {
            files.load(device, LoadOptions::default(), progress)
        })?;
        let begun = Instant::now();
        let computation = Computation::of(&model, &self.ids, device)?;
        Ok(Timed {
            computation,
            seconds: begun.elapsed().as_secs_f64(),
            memory_bytes: moebius::memory_in_use(device)?,
        })
    }
}

/// The values of a model's files, which are hashed when they are read.
struct Hashed<'a> {
    values: FileValues<'a>,
    hasher: blake3::Hasher,
}

impl Values for Hashed<'_> {
    fn values(&mut self, place: WeightPlace) -> Result<Vec<f32>, Error> {
        let values = self.values.values(place)?;
        self.hasher.update(format!("{place:?}").as_bytes());
        hash_bits(&mut self.hasher, values.iter().copied());
        Ok(values)
    }

    fn own_head(&self) -> Option<bool> {
        self.values.own_head()
    }
}

/// Adds the bits of values to a hash.
fn hash_bits(hasher: &mut blake3::Hasher, values: impl Iterator<Item = f32>) {
    let mut bytes = Vec::with_capacity(4 * values.size_hint().0);
    values.for_each(|value| bytes.extend(value.to_le_bytes()));
    hasher.update(&bytes);
}

/// What a device computed, against the reference. The values of `computation` are f32 on the device.
pub(super) fn found(
    reference: &Computation,
    computation: &Computation,
    limits: Limits,
) -> Result<Found, CliError> {
    let distances = Distance::between(reference, computation, limits)?;
    let first = parting(&distances, limits);
    let first = first.map(|Distance { layer, part, .. }| Place {
        layer: *layer,
        part: *part,
    });
    let parts = distances.into_iter().zip(&computation.parts);
    let parts = parts.map(|(distance, part)| Measured {
        distance,
        hash: bits(&part.values),
        bits_of_first: true,
    });
    Ok(Found::Model {
        parts: parts.collect(),
        parting: first,
        greedy: Greedy::first(reference, computation),
    })
}

/// The hash of the bits of values that are f32.
fn bits(values: &[f64]) -> String {
    let mut hasher = blake3::Hasher::new();
    hash_bits(&mut hasher, values.iter().map(|value| *value as f32));
    hasher.finalize().to_hex().to_string()
}
