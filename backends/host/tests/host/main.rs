//! What processors compute. The crate has no unit tests, which would compile all of it a second time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod coded;
mod functions;
mod memory;
mod products;
mod sets;

/// What the source of `functions::vector` takes from its crate.
mod simd {
    pub(crate) use moebius_host::{Simd, simd};
}
