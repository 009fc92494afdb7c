//! What processors compute. The crate has no unit tests, which would compile all of it a second time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod caches;
mod casts;
mod coded;
mod functions;
mod memory;
mod pairs;
mod passes;
mod products;
mod sets;

/// What the sources below take from their crate.
mod simd {
    pub(crate) use moebius_host::{Simd, simd};
}

#[cfg(target_arch = "x86_64")]
#[allow(unused, reason = "what vector code takes from it")]
#[path = "../../src/f16c.rs"]
mod f16c;
#[allow(unused, unreachable_pub, reason = "what products take from it")]
#[path = "../../src/fp8_codes.rs"]
mod fp8_codes;
#[allow(unused, reason = "products in pairs are all that is tested inside")]
#[path = "../../src/product/mod.rs"]
mod product;
#[allow(unused, unreachable_pub, reason = "what products take from it")]
#[path = "../../src/values.rs"]
mod values;
#[allow(unused, reason = "what products take from it, and functions")]
#[path = "../../src/vector.rs"]
mod vector;
#[allow(unused, unreachable_pub, reason = "what products take from it")]
#[path = "../../src/workers.rs"]
mod workers;
