//! Tests of weights in files through the public interface: attacks, round trips, other programs' files, conversions.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]
#![allow(clippy::panic, reason = "a test fails by panicking")]

mod any_bytes;
mod conversion;
mod files;
mod foreign;
mod integers;
mod interop;
mod layouts;
mod malformed;
mod packed;
mod pairs;
mod round_trip;
mod safety;
mod sources;
