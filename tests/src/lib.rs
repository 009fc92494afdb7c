//! Shared parts of the tests: availability of kernels per target, reproducible data, devices by name, refusals, tolerances.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

/// Compiles and runs the examples of a document that needs several crates.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../docs/models.md")]
    struct Models;
}

pub mod availability;
pub mod data;
pub mod delayed_scale;
pub mod elements;
pub mod gradients;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod metal;
pub mod record;
pub mod refusal;
pub mod target;
pub mod tolerance;
