//! The files of a published model: its weights, its tokenizer, its chat template.

use std::path::Path;

use moebius_model::load::ModelFiles;
use moebius_text::{ChatTemplate, Files, Tokenizer};

use crate::bundled;
use crate::error::CliError;

/// A model whose headers have been read, and its tokenizer.
pub(crate) struct Source {
    pub(crate) files: ModelFiles,
    pub(crate) tokenizer: Tokenizer,
    /// What lies beside the weights.
    beside: Files,
    name: String,
}

impl Source {
    /// That of a folder or a GGUF file, or, without a path, the one inside this program.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, CliError> {
        let (files, beside, name) = match path {
            Some(path) => (
                ModelFiles::open(path)?,
                Files::in_folder(path),
                path.display().to_string(),
            ),
            None => {
                let (files, beside) = bundled::model()?;
                (files, beside, bundled::MODEL_NAME.to_owned())
            }
        };
        let tokenizer = match files.gguf() {
            Some(file) => {
                let vocabulary = file.vocabulary()?;
                let vocabulary = vocabulary.ok_or_else(|| missing(&name, "tokenizer"))?;
                Tokenizer::from_gguf(vocabulary)?
            }
            None => Tokenizer::from_files(&beside)?,
        };
        Ok(Self {
            files,
            tokenizer,
            beside,
            name,
        })
    }

    /// The path, or what the model inside this program is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The chat template, which writes the tokens that begin and end a text.
    pub(crate) fn template(&self) -> Result<ChatTemplate, CliError> {
        let Some(file) = self.files.gguf() else {
            return Ok(ChatTemplate::from_files(&self.beside, None)?);
        };
        let text = file.chat_template();
        let text = text.ok_or_else(|| missing(&self.name, "chat template"))?;
        Ok(ChatTemplate::from_gguf(text, &self.tokenizer)?)
    }
}

fn missing(name: &str, what: &str) -> CliError {
    CliError::usage(
        format!("{name} has no {what}"),
        Some("a folder with config.json and tokenizer.json can be used, too"),
    )
}
