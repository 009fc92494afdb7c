//! The files of a published model: its weights, its tokenizer, its chat template.

use std::path::Path;

use moebius_model::load::ModelFiles;
use moebius_text::{ChatTemplate, Files, GgufVocabulary, Tokenizer};
use moebius_weights::gguf::{GgufFile, Vocabulary};

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
            Some(file) => Tokenizer::from_gguf(vocabulary(file, &name)?)?,
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

fn vocabulary(file: &GgufFile, name: &str) -> Result<GgufVocabulary, CliError> {
    let parts = file.vocabulary()?;
    let parts: Vocabulary = parts.ok_or_else(|| missing(name, "tokenizer"))?;
    Ok(GgufVocabulary {
        model: parts.model,
        pre: parts.pre,
        tokens: parts.tokens,
        merges: parts.merges,
        types: parts.types,
        bos: parts.bos,
        eos: parts.eos,
        add_bos: parts.add_bos,
    })
}

fn missing(name: &str, what: &str) -> CliError {
    CliError::usage(
        format!("{name} has no {what}"),
        Some("a folder with config.json and tokenizer.json can be used, too"),
    )
}
