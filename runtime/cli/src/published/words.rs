//! Where the tokenizer and the chat template of a model come from.

use std::path::Path;

use moebius_model::load::ModelFiles;
use moebius_model::weights::gguf::{GgufFile, VocabularyParts};
use moebius_text::{ChatTemplate, GgufVocabulary, Tokenizer};

use crate::error::CliError;

/// The tokenizer: files beside the weights, or parts of a GGUF file.
pub(crate) fn tokenizer(files: &ModelFiles, path: &Path) -> Result<Tokenizer, CliError> {
    match files.gguf() {
        Some(file) => Ok(Tokenizer::from_gguf(vocabulary(file, path)?)?),
        None => Ok(Tokenizer::from_folder(path)?),
    }
}

fn vocabulary(file: &GgufFile, path: &Path) -> Result<GgufVocabulary, CliError> {
    let parts = file.vocabulary()?;
    let parts: VocabularyParts = parts.ok_or_else(|| missing(path, "tokenizer"))?;
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

/// The chat template, which writes the tokens that begin and end a text.
pub(crate) fn template(
    files: &ModelFiles,
    path: &Path,
    tokenizer: &Tokenizer,
) -> Result<ChatTemplate, CliError> {
    let Some(file) = files.gguf() else {
        return Ok(ChatTemplate::from_folder(path, None)?);
    };
    let text = file.chat_template();
    let text = text.ok_or_else(|| missing(path, "chat template"))?;
    Ok(ChatTemplate::from_gguf(text, tokenizer)?)
}

fn missing(path: &Path, what: &str) -> CliError {
    let message = format!("{} has no {what}", path.display());
    CliError::usage(
        message,
        Some("a folder with config.json and tokenizer.json can be used, too"),
    )
}
