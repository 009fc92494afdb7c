//! The tokens of a tokenizer as the library reads them.

use std::sync::Arc;

use llguidance::toktrie::{ApproximateTokEnv, INVALID_TOKEN, TokEnv, TokRxInfo, TokTrie};
use moebius_text::{Error, Tokenizer};

/// Longest token in bytes: the library's tree of tokens is not deeper. Longer tokens, if there are any, are never allowed.
const LONGEST: usize = 1000;

/// The tokens of a tokenizer by their bytes, and those that end an answer. Which tokens spell a text is left to the model.
pub(crate) fn environment(tokenizer: &Tokenizer) -> Result<TokEnv, Error> {
    let size = tokenizer.vocabulary_size();
    let words = (0..size).map(|id| word(tokenizer, id));
    let words = words.collect::<Result<Vec<Vec<u8>>, Error>>()?;
    let ends = tokenizer.eos_ids();
    let end = ends.first().copied().unwrap_or(INVALID_TOKEN);
    let mut trie = TokTrie::from(&TokRxInfo::new(size, end), &words);
    if !ends.is_empty() {
        trie = trie.with_eos_tokens(ends);
    }
    Ok(Arc::new(ApproximateTokEnv::new(trie)))
}

/// The bytes of a token. Those of a special one begin with a byte that no text has, so that only its own mark in a grammar allows it.
fn word(tokenizer: &Tokenizer, id: u32) -> Result<Vec<u8>, Error> {
    let mut bytes = tokenizer.bytes(id)?;
    if tokenizer.is_special(id) {
        let name = tokenizer.token(id).unwrap_or_default();
        bytes = [&[TokTrie::SPECIAL_TOKEN_MARKER][..], name.as_bytes()].concat();
    }
    if bytes.len() > LONGEST {
        bytes.clear();
    }
    Ok(bytes)
}
