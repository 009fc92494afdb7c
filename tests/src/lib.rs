//! What the tests share: what compiles where, reproducible data, devices by name, tolerances.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

pub mod availability;
pub mod data;
pub mod elements;
pub mod gradients;
pub mod libtpu;
pub mod record;
pub mod target;
pub mod tolerance;
