//! How Moebius computes on processors: each operation of `moebius-ops` in plain Rust, with vector instructions, threads and memory that is used
//! again. Slices in, slices out: it knows no tensors and no devices. A family of operations is a module of the name that it has in `moebius-ops`.
//!
//! Sizes are a problem's, which its constructor has checked; slices that don't have them panic.

pub mod attention;
mod expert_activation;
pub mod experts;
pub mod fused;
pub mod grouped_gemm;
pub mod kv_cache;
#[cfg(target_os = "linux")]
mod large_pages;
pub mod permute;
mod product;
pub mod quantize;
pub mod routing;
pub mod segment_attention;
mod simd;
mod spare;
mod values;
mod vector;
mod workers;

#[cfg(target_os = "linux")]
pub use large_pages::in_large_pages;
pub use simd::{Simd, SimdError, limit_simd, simd};
pub use values::{Matrices, Values};
pub use workers::on_workers;
