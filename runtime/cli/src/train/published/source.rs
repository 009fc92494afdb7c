//! What is trained, and on what.

use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use moebius_model::decoder::ModelSpec;
use moebius_model::families::describe_all;
use moebius_model::load::ModelFiles;
use moebius_model::{Beside, Trainer, save};
use moebius_text::Tokenizer;
use serde_json::Value;

use crate::args::TrainArgs;
use crate::error::CliError;
use crate::screen::Screen;
use crate::train::course::{Course, text};
use crate::{progress, published};

/// The special token before the others of a vocabulary that is learnt.
const END: &str = "<|endoftext|>";

/// What the tokenizer's file is called.
const TOKENIZER: &str = "tokenizer.json";

/// A model to train, and the tokens of a text.
pub(super) struct Source {
    folder: PathBuf,
    config: Value,
    weights: Weights,
    ids: Vec<u32>,
    /// Files that the folder lacks.
    made: Vec<(&'static str, Vec<u8>)>,
}

/// Where the first weights are from.
enum Weights {
    Files(Box<ModelFiles>),
    Drawn(ModelSpec, &'static str),
}

impl Source {
    pub(super) fn read(args: &TrainArgs, folder: &Path) -> Result<Self, CliError> {
        let text = characters(args)?;
        let (config, weights) = if args.published.from_scratch {
            drawn(folder)?
        } else {
            loaded(folder)?
        };
        let mut made = Vec::new();
        let learns = args.published.from_scratch && !folder.join(TOKENIZER).is_file();
        let tokenizer = if learns {
            let json = Tokenizer::learn(&text, weights.spec().vocabulary, END)?;
            let tokenizer = Tokenizer::from_bytes(&json)?;
            made.push((TOKENIZER, json));
            tokenizer
        } else {
            Tokenizer::from_folder(folder)?
        };
        Ok(Self {
            folder: folder.to_owned(),
            ids: tokenizer.encode(&text, false)?,
            config,
            weights,
            made,
        })
    }

    pub(super) fn spec(&self) -> &ModelSpec {
        self.weights.spec()
    }

    pub(super) fn family(&self) -> &'static str {
        match &self.weights {
            Weights::Files(files) => files.family(),
            Weights::Drawn(_, family) => family,
        }
    }

    /// What a title says about the first weights.
    pub(super) fn origin(&self) -> &'static str {
        match &self.weights {
            Weights::Files(_) => "",
            Weights::Drawn(..) => ", drawn",
        }
    }

    /// The tokens that are learnt from, and the last `held_out` of them, which are not.
    pub(super) fn parts(&self, held_out: usize) -> (&[u32], &[u32]) {
        let from = self.ids.len().saturating_sub(held_out);
        self.ids.split_at(from)
    }

    /// The training of `ids`, from its checkpoint or its first weights.
    pub(super) fn trainer(
        &self,
        course: Course,
        ids: Vec<u32>,
        device: &Device,
        screen: &Screen,
    ) -> Result<Trainer, CliError> {
        let Course {
            config,
            subject,
            checkpoint,
        } = course;
        if let Some(checkpoint) = checkpoint {
            return Ok(Trainer::resume(checkpoint, subject, ids, device)?);
        }
        match &self.weights {
            Weights::Drawn(..) => Ok(Trainer::new(config, subject, ids, device)?),
            Weights::Files(files) => {
                let bar = progress::steps(screen, "weights", 100);
                let trainer = Trainer::load(config, files, ids, device, &mut |at| {
                    published::show(&bar, at);
                });
                bar.finish_and_clear();
                Ok(trainer?)
            }
        }
    }

    /// Writes the model as it is now into a new folder, with what the first one has beside its weights.
    pub(super) fn save(&self, trainer: &Trainer, out: &Path) -> Result<PathBuf, CliError> {
        let beside = Beside {
            folder: Some(&self.folder),
            files: &self.made,
        };
        Ok(save(&mut trainer.model(), &self.config, beside, out)?)
    }
}

impl Weights {
    fn spec(&self) -> &ModelSpec {
        match self {
            Self::Files(files) => files.spec(),
            Self::Drawn(spec, _) => spec,
        }
    }
}

/// The text to learn from, as characters.
fn characters(args: &TrainArgs) -> Result<String, CliError> {
    let text = String::from_utf8(text(args)?.bytes().to_vec());
    let text = text.map_err(|error| {
        let path = args.text.as_ref();
        let path = path.map_or_else(
            || "the bundled text".to_owned(),
            |path| path.display().to_string(),
        );
        let message = format!("{path}: expected UTF-8, got {}", error.utf8_error());
        CliError::usage(message, Some("a tokenizer takes characters, not bytes"))
    })?;
    Ok(if args.published.paragraphs {
        joined(&text)
    } else {
        text
    })
}

/// The text with the lines of a paragraph in one.
fn joined(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for line in text.lines().map(str::trim) {
        match line.is_empty() {
            true if joined.ends_with('\n') || joined.is_empty() => {}
            true => joined.push('\n'),
            false => {
                if !joined.ends_with('\n') && !joined.is_empty() {
                    joined.push(' ');
                }
                joined.push_str(line);
            }
        }
    }
    joined
}

fn loaded(folder: &Path) -> Result<(Value, Weights), CliError> {
    let files = ModelFiles::open(folder)?;
    let config = files.reader().and_then(|reader| reader.config()).cloned();
    let config = config.ok_or_else(|| {
        let message = format!("{}: expected a folder with config.json", folder.display());
        CliError::usage(message, Some("a GGUF file can't be trained"))
    })?;
    Ok((config, Weights::Files(Box::new(files))))
}

fn drawn(folder: &Path) -> Result<(Value, Weights), CliError> {
    let path = folder.join("config.json");
    let unreadable = |source| CliError::ReadFile {
        path: path.display().to_string(),
        source,
    };
    let bytes = fs::read(&path).map_err(unreadable)?;
    let config: Value = serde_json::from_slice(&bytes).map_err(|error| {
        let message = format!("{}: expected JSON, got {error}", path.display());
        CliError::usage(message, None)
    })?;
    let described = describe_all(&config).map_err(|misfits| {
        let message = format!("{}: {misfits}", path.display());
        CliError::usage(message, None)
    })?;
    let family = described.family.name;
    Ok((config, Weights::Drawn(described.spec, family)))
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn lines_of_a_paragraph_become_one() {
        let text = "CHAPTER 1.\n\n\nCall me\nIshmael.  \nSome years\n\nago";
        assert_eq!(joined(text), "CHAPTER 1.\nCall me Ishmael. Some years\nago");
    }
}
