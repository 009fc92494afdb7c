#![doc = include_str!("../README.md")]
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#![allow(
    unsafe_code,
    reason = "it is a C interface, and runs machine code on stacks of its own"
)]

mod card;
mod compile;
pub mod driver;
mod grid;
pub mod hip;
mod kept;
pub mod metal;
pub mod nvrtc;
mod report;
mod settings;
mod text;
