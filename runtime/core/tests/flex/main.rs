//! Layers, weights and training on Flex. The crate has no unit tests, which would compile all of it a second time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod attention;
mod blocks;
mod convert;
mod exact;
mod fused;
mod host_codes;
mod large_pages;
mod layer;
mod losses;
mod low_rank;
mod nn;
mod optimizer;
mod pad;
mod product;
mod reduce;
mod scales;
mod step;
mod switching;
mod weight;
