//! Operations on FP8 codes and on rows, run by a plugin and compared with plain Rust.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic"
)]

mod attention;
mod casts;
mod codec;
#[path = "../cpu/mod.rs"]
mod cpu;
mod linear;
mod plugin;
mod quantize;
mod routed;
