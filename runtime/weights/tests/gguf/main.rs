//! GGUF files from outside: attacks, and what they say about a tokenizer.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]
#![allow(clippy::panic, reason = "a test fails by panicking")]

mod any_bytes;
mod builder;
mod hostile;
mod vocabulary;
