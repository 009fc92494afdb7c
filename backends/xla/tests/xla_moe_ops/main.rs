//! The lowering of the mixture-of-experts operations, run by the CPU plugin and compared with plain Rust
//! in f64 that shares no code with it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic"
)]

mod calls;
mod cost;
#[path = "../cpu/mod.rs"]
mod cpu;
mod experts;
mod experts_oracle;
mod gradients;
mod hash;
mod linear;
mod positions;
mod router;
mod run;
mod sort;
