//! The tokens that a model goes on with.

use std::io::Read;

use moebius_text::{Chat, ChatTemplate, Message, Tokenizer};

use crate::args::GenerateArgs;
use crate::error::CliError;

/// The tokens of the prompt, at least one.
pub(super) fn ids(args: &GenerateArgs, tokenizer: &Tokenizer) -> Result<Vec<u32>, CliError> {
    let text = match &args.prompt {
        Some(text) => text.clone(),
        None => standard_input()?,
    };
    // A template writes the special tokens itself.
    let ids = match args.chat {
        true => tokenizer.encode(&rendered(args, text)?, false)?,
        false => tokenizer.encode(&text, true)?,
    };
    if ids.is_empty() {
        let hint = "--prompt TEXT, or text on standard input";
        return Err(CliError::usage("the prompt is empty", Some(hint)));
    }
    Ok(ids)
}

fn rendered(args: &GenerateArgs, text: String) -> Result<String, CliError> {
    let template = ChatTemplate::from_folder(&args.model, None)?;
    let chat = Chat::new([Message::new("user", text)]).with_generation_prompt(true);
    Ok(template.render(&chat)?)
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
