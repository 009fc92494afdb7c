//! How Moebius computes on processors: each operation of `moebius-ops` in plain Rust, with vector instructions, threads and memory that is used
//! again. Slices in, slices out: it knows no tensors and no devices.

pub mod attention;
pub mod fused;
pub mod kv_cache;
#[cfg(target_os = "linux")]
mod large_pages;
pub mod quantize;
pub mod routing;
mod simd;
mod spare;
mod values;
mod vector;
mod workers;

#[cfg(target_os = "linux")]
pub use large_pages::in_large_pages;
pub use simd::{Simd, SimdError, limit_simd, simd};
pub use spare::Spare;
pub use values::{Stored, Values};
pub use vector::{Kernel, Transpose, dispatch, exp, tanh, vectorized};
pub use workers::{each_row, on_workers};
