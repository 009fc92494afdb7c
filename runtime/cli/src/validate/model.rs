//! What a model computes for a text: in f64, and on devices.

use std::time::Instant;

use burn::tensor::Device as BurnDevice;
use moebius_model::Error;
use moebius_model::computation::{Computation, Cost, Distance, Greedy, Limits, parting};
use moebius_model::decoder::{Model, Place as WeightPlace, Values};
use moebius_model::load::{FileValues, LoadOptions};

use crate::args::AnswerArgs;
use crate::certificate::{Found, Hash, Measured, OfModel, Oracle, Place};
use crate::error::CliError;
use crate::process;
use crate::published::{Source, shown};
use crate::screen::Screen;

/// The text that a model reads where none is given.
const TEXT: &str = "Call me Ishmael. Some years ago, never mind how long precisely, having little or no money in my purse, and nothing \
    particular to interest me on shore, I thought I would sail about a little and see the watery part of the world.";

/// The text that the bundled model reads, shorter, because a page loads what the model should compute for it (`validate reference`).
const BUNDLED_TEXT: &str =
    "Call me Ishmael. Some years ago the whale had swum in no water of this sea.";

/// A model, and the tokens that it reads.
pub(super) struct Work {
    pub(super) source: Source,
    pub(super) ids: Vec<u32>,
    /// Whether the model is computed with the same bits on every device.
    pub(super) exact: bool,
}

/// The parts that a device computed.
pub(super) struct Timed {
    pub(super) computation: Computation,
    /// Seconds of the forward pass, until all of it was read.
    pub(super) seconds: f64,
    /// Bytes in use on the device afterwards, where known.
    pub(super) memory_bytes: Option<u64>,
    /// What the layers take, each waited for, in later passes, or why these failed.
    pub(super) costs: Result<Vec<Cost>, CliError>,
}

impl Work {
    /// Opens the model, or the bundled one, and reads the tokens.
    pub(super) fn read(args: &AnswerArgs) -> Result<Self, CliError> {
        let source = Source::open(args.model.as_deref())?;
        let usual = args.model.as_ref().map_or(BUNDLED_TEXT, |_| TEXT);
        let text = args.tokens.as_deref().unwrap_or(usual);
        let ids = source.tokenizer.encode(text, true)?;
        if ids.is_empty() {
            let hint = "--tokens TEXT names another";
            return Err(CliError::usage("the text has no tokens", Some(hint)));
        }
        let exact = args.exact;
        Ok(Self { source, ids, exact })
    }

    /// What a certificate says of the work.
    pub(super) fn subject(&self, hash: String) -> OfModel {
        OfModel {
            name: self.source.name().to_owned(),
            family: self.source.files.family().to_owned(),
            hash,
            tokens: self.ids.clone(),
            exact: self.exact,
        }
    }

    /// Computes the parts in f64, and the hash of the model on the way.
    pub(super) fn reference(&self, screen: &Screen) -> Result<(Computation, String), CliError> {
        let (files, spinner) = (&self.source.files, screen.spinner());
        spinner.set_message("the reference in f64");
        let mut hash = Hash::new();
        hash.add(&serde_json::to_vec(files.spec())?);
        let mut values = Hashed {
            values: files.values(),
            hash,
        };
        let computation = Computation::reference(files.spec(), &mut values, &self.ids);
        spinner.finish_and_clear();
        Ok((computation?, values.hash.digits()))
    }

    /// Loads the model on a device, in f32 but for weights in FP8.
    fn load(&self, device: &BurnDevice, screen: &Screen) -> Result<Model, CliError> {
        let options = if self.exact {
            LoadOptions::exact()
        } else {
            LoadOptions::default()
        };
        let files = &self.source.files;
        let model = shown(screen, |progress| files.load(device, options, progress))?;
        Ok(model)
    }

    /// Computes the parts on a device.
    pub(super) fn compute(
        &self,
        device: &BurnDevice,
        screen: &Screen,
    ) -> Result<Computation, CliError> {
        let model = self.load(device, screen)?;
        Ok(Computation::of(&model, &self.ids, device)?)
    }

    /// Computes the parts on a device, and then what they take there; where only that fails, the parts are what they are.
    pub(super) fn measure(&self, device: &BurnDevice, screen: &Screen) -> Result<Timed, CliError> {
        let model = self.load(device, screen)?;
        let begun = Instant::now();
        let computation = Computation::of(&model, &self.ids, device)?;
        let seconds = begun.elapsed().as_secs_f64();
        let memory_bytes = moebius::memory_in_use(device)?;
        let lost = || process::lost().map_or(Ok(()), |text| Err(CliError::Launch(text)));
        lost()?;
        // A launch that is lost from here on is none of those that are compared.
        let costs = Cost::of_layers(&model, &self.ids, device);
        Ok(Timed {
            computation,
            seconds,
            memory_bytes,
            costs: lost().and_then(|()| Ok(costs?)),
        })
    }
}

/// The values of a model's files, which are hashed when they are read.
struct Hashed<'a> {
    values: FileValues<'a>,
    hash: Hash,
}

impl Values for Hashed<'_> {
    fn values(&mut self, place: WeightPlace) -> Result<Vec<f32>, Error> {
        let values = self.values.values(place)?;
        self.hash.add(format!("{place:?}").as_bytes());
        self.hash.add_values(values.iter().copied());
        Ok(values)
    }

    fn own_head(&self) -> Option<bool> {
        self.values.own_head()
    }
}

/// What a device computed, against the reference, and what that takes, or why it wasn't timed. The values of `computation` are f32 on the device.
pub(super) fn found(
    reference: &Computation,
    (computation, costs): (&Computation, Result<Vec<Cost>, CliError>),
    limits: Limits,
) -> Result<Found, CliError> {
    let distances = Distance::between(reference, computation, limits)?;
    let first = parting(&distances, limits);
    let first = first.map(|Distance { layer, part, .. }| Place {
        layer: *layer,
        part: *part,
    });
    let (costs, untimed) = match costs {
        Ok(costs) => (Some(costs), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let parts = distances.into_iter().zip(&computation.parts);
    let parts = parts.map(|(distance, part)| Measured {
        distance,
        hash: bits(&part.values),
        bits_of_first: true,
    });
    Ok(Found::Model {
        oracle: Oracle::Reference,
        parts: parts.collect(),
        parting: first,
        greedy: Greedy::first(reference, computation),
        costs,
        untimed,
    })
}

/// The hash of the bits of values that are f32.
fn bits(values: &[f64]) -> String {
    let mut hash = Hash::new();
    hash.add_values(values.iter().map(|value| *value as f32));
    hash.digits()
}

#[cfg(test)]
#[cfg(feature = "flex")]
#[path = "model_tests.rs"]
mod tests;
