//! The tokens that a model is asked about.

use std::io::Read;

use moebius_model::load::ModelFiles;
use moebius_text::{Chat, Message, Tokenizer};

use super::words;
use crate::args::PromptArgs;
use crate::error::CliError;

/// The tokens of the prompt, at least one.
pub(crate) fn prompt(
    args: &PromptArgs,
    files: &ModelFiles,
    tokenizer: &Tokenizer,
) -> Result<Vec<u32>, CliError> {
    let text = match &args.prompt {
        Some(text) => text.clone(),
        None => standard_input()?,
    };
    let ids = if args.chat {
        let template = words::template(files, &args.model, tokenizer)?;
        let chat = Chat::new([Message::new("user", text)]).with_generation_prompt(true);
        // A template writes the special tokens itself.
        tokenizer.encode(&template.render(&chat)?, false)?
    } else {
        tokenizer.encode(&text, true)?
    };
    if ids.is_empty() {
        let hint = "--prompt TEXT, or text on standard input";
        return Err(CliError::usage("the prompt is empty", Some(hint)));
    }
    Ok(ids)
}

fn standard_input() -> Result<String, CliError> {
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|source| CliError::ReadFile {
        path: "standard input".to_owned(),
        source,
    })?;
    Ok(text)
}
