//! The lowering of the mixture-of-experts operations, run by the CPU plugin and compared with references in plain Rust
//! (f64 inside). Both take sizes and descriptions from `moebius-ops`; the formulas are written twice.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic"
)]

mod batch;
mod calls;
mod cost;
#[path = "../cpu/mod.rs"]
mod cpu;
mod experts;
mod gradients;
mod linear;
mod positions;
mod router;
mod run;
mod sort;
