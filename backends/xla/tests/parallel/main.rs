//! Tests of a layer over several devices of the CPU plugin: it computes what one device does, and exchanges what the
//! formulas say.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "../cpu/mod.rs"]
mod cpu;
mod data;
mod expert;
mod run;
mod training;
mod volume;
