//! Tests of the lowering of every operation, run by the CPU plugin and compared with
//! [`moebius_ops::Operation::reference`].
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic"
)]

mod attention;
mod calls;
mod casts;
mod cost;
#[path = "../cpu/mod.rs"]
mod cpu;
mod experts;
mod grouped_gemm;
mod permute;
mod placed;
mod positions;
mod quantize;
mod routing;
mod run;
mod segment_attention;
