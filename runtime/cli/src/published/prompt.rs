//! The tokens that a model is asked about.

use std::io::Read;

use moebius_text::{Chat, Message};

use super::Source;
use crate::args::PromptArgs;
use crate::error::CliError;

/// The tokens of the prompt, at least one.
pub(crate) fn prompt(args: &PromptArgs, source: &Source) -> Result<Vec<u32>, CliError> {
    let text = match &args.prompt {
        Some(text) => text.clone(),
        None => standard_input()?,
    };
    let ids = if args.chat {
        let template = source.template()?;
        let chat = Chat::new([Message::new("user", text)]).with_generation_prompt(true);
        // A template writes the special tokens itself.
        source.tokenizer.encode(&template.render(&chat)?, false)?
    } else {
        source.tokenizer.encode(&text, true)?
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
