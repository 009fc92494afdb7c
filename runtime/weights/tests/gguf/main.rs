//! Tests of GGUF files through the public interface: attacks, a tokenizer's vocabulary, and files that are written.
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
mod written;
