//! Any bytes as a file are read or refused. The targets in `fuzz/fuzz_targets/` run this, too.

use moebius_text::{Chat, ChatTemplate, Detokenizer, Error, Files, Message, Tokenizer};

/// Reads a `tokenizer.json` from `bytes`, and if that succeeds, encodes and decodes with it.
pub(crate) fn any_tokenizer(bytes: &[u8]) -> Result<(), Error> {
    encodes_and_decodes(&Tokenizer::from_bytes(bytes)?)
}

/// Reads a `tokenizer.model` from `bytes`, and if that succeeds, encodes and decodes with it.
pub(crate) fn any_model(bytes: &[u8]) -> Result<(), Error> {
    let files = Files::in_memory([("tokenizer.model", bytes.to_vec())]);
    encodes_and_decodes(&Tokenizer::from_files(&files)?)
}

fn encodes_and_decodes(tokenizer: &Tokenizer) -> Result<(), Error> {
    let said = "Call me 你好 Ishmael 🙂. <|im_end|>";
    let as_text = tokenizer.clone().with_special_as_text(true);
    let _ = as_text.encode(said, true);
    let ids = tokenizer.encode(said, true)?;
    let text = tokenizer.decode(&ids, false)?;
    let mut detokenizer = Detokenizer::new(tokenizer, false);
    let mut streamed = String::new();
    for id in ids {
        streamed += &detokenizer.push(id)?;
    }
    streamed += &detokenizer.finish()?;
    assert!(streamed == text, "a stream of other text than the whole");
    Ok(())
}

/// Parses a template, and if that succeeds, renders a conversation with it, on little fuel.
pub(crate) fn any_template(text: &str) {
    let chat = Chat::new([Message::new("user", "Hi"), Message::new("assistant", "")]);
    if let Ok(template) = ChatTemplate::new("any", text) {
        let _ = template.with_fuel(100_000).render(&chat);
    }
}
