//! The operations of `moebius-ops` on processors, in plain Rust with vector instructions, threads and memory that is used again. All
//! functions take and return slices; the crate knows no tensors and no devices. Each family of operations is a module with the name that
//! the family has in `moebius-ops`.
//!
//! Sizes come from a problem, whose constructor has checked them; slices of other sizes panic.

pub mod attention;
pub mod casts;
pub mod exact;
mod expert_activation;
pub mod experts;
#[cfg(target_arch = "x86_64")]
mod f16c;
mod fp8_codes;
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
pub use large_pages::{LargePages, in_large_pages};
pub use simd::{Simd, SimdError, limit_simd, simd};
pub use values::{Matrices, Values};
pub use workers::{join, on_workers};
