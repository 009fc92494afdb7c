//! Attention under score rules, run by a plugin and compared with the f64 reference.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic"
)]

#[path = "../cpu/mod.rs"]
mod cpu;
mod data;
mod hidden;
mod rules;
mod run;
mod sizes;
