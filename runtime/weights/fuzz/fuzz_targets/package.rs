//! Fuzz target: any bytes as the manifest of a package. The library's tests run the same body with bytes from proptest.
#![no_main]

#[path = "../../tests/package/any_bytes.rs"]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|data: &[u8]| any_bytes::any_bytes(data));
