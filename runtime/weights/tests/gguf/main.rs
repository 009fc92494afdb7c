//! Tests of GGUF files through the public interface: attacks, and a tokenizer's vocabulary.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]
#![allow(clippy::panic, reason = "a test fails by panicking")]

mod any_bytes;
mod builder;
mod hostile;
mod parts;
mod vocabulary;
