//! What `moebius train --model` learns from and is measured on: a text, or samples in lines of JSON.

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use moebius_model::{Dataset, Perplexity, Sample, Trainer, TrainingData, Windows};
use moebius_text::{ChatTemplate, Files, SampleReader, Tokenizer};

use crate::error::CliError;
use crate::screen::Screen;

/// Default number of tokens at the end of a text that are held out from training.
const HELD_OUT: usize = 2048;

/// Of so many samples one is held out from training, unless told otherwise.
const SHARE: usize = 20;

/// What a training is given.
pub(super) enum Lessons {
    /// The tokens of a text.
    Text(Vec<u32>),
    Samples(Vec<Sample>),
}

impl Lessons {
    /// Reads samples for the model in `folder`.
    pub(super) fn read(
        path: &Path,
        folder: &Path,
        tokenizer: &Tokenizer,
    ) -> Result<Self, CliError> {
        let has_template = ChatTemplate::is_in(&Files::in_folder(folder))?;
        let template = has_template.then(|| ChatTemplate::from_folder(folder, None));
        let template = template.transpose()?;
        let reader = SampleReader::new(tokenizer, template.as_ref());
        // A template that writes a date gets that of the file, so that a training can be resumed on another day.
        let samples = reader.with_time(modified(path)?).read(path)?;
        let samples = samples
            .into_iter()
            .map(|sample| Sample::new(sample.ids, sample.learnt));
        Ok(Self::Samples(samples.collect::<Result<_, _>>()?))
    }

    /// What is learnt, in sequences of `sequence` tokens, and what is held out: so many tokens or samples at the end.
    pub(super) fn parts(
        &self,
        held_out: Option<usize>,
        sequence: usize,
    ) -> Result<(TrainingData, HeldOut), CliError> {
        match self {
            Self::Text(ids) => {
                let held_out = held_out.unwrap_or(HELD_OUT);
                let (learnt, held_out) = ids.split_at(ids.len().saturating_sub(held_out));
                Ok((learnt.to_vec().into(), HeldOut::Text(held_out.to_vec())))
            }
            Self::Samples(samples) => {
                let held_out = held_out.unwrap_or(samples.len() / SHARE);
                let from = samples.len().saturating_sub(held_out);
                let (learnt, held_out) = samples.split_at(from);
                let pack = |samples: &[Sample]| Dataset::pack(samples.to_vec(), sequence);
                let judged = (!held_out.is_empty()).then(|| pack(held_out));
                Ok((pack(learnt)?.into(), HeldOut::Samples(judged.transpose()?)))
            }
        }
    }
}

/// The time at which a file was changed, since 1970; 0 for earlier times.
fn modified(path: &Path) -> Result<Duration, CliError> {
    let changed = fs::metadata(path).and_then(|of| of.modified());
    let changed = changed.map_err(CliError::read(path.display()))?;
    Ok(changed.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// What a training doesn't learn from, to measure its model on.
pub(super) enum HeldOut {
    /// The tokens of a text.
    Text(Vec<u32>),
    Samples(Option<Dataset>),
}

impl HeldOut {
    /// Number of tokens that are predicted.
    pub(super) fn targets(&self) -> usize {
        match self {
            Self::Text(ids) => ids.len().saturating_sub(1),
            Self::Samples(samples) => samples.as_ref().map_or(0, Dataset::targets),
        }
    }

    /// The perplexity of the present model: on a text in windows as long as a training sequence, each half of one after the one before.
    /// `None` if nothing is held out. `progress` gets the number of tokens judged so far.
    pub(super) fn perplexity(
        &self,
        trainer: &Trainer,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Option<Perplexity>, CliError> {
        if self.targets() == 0 {
            return Ok(None);
        }
        let found = match self {
            Self::Text(ids) => {
                let context = trainer.config().sequence.max(2);
                let windows = Windows::new(context, context / 2)?;
                trainer.perplexity(ids, windows, progress)
            }
            Self::Samples(None) => return Ok(None),
            Self::Samples(Some(samples)) => trainer.perplexity_of_samples(samples, progress),
        };
        Ok(Some(found?))
    }
}

/// Writes how samples fill their sequences, and what of them isn't learnt.
pub(super) fn say_packed(data: &TrainingData, screen: &mut Screen) -> Result<(), CliError> {
    let TrainingData::Samples(samples) = data else {
        return Ok(());
    };
    let mut notes = String::new();
    for (count, what) in [
        (samples.cut(), "longer than a sequence and cut"),
        (samples.left_out(), "left out, with no token to learn"),
    ] {
        if count > 0 {
            notes.push_str(&format!(" · {count} {what}"));
        }
    }
    screen.line(&format!(
        "  {} samples with {} tokens to learn in {} sequences{notes}",
        samples.samples(),
        samples.targets(),
        samples.sequences(),
    ))
}
