//! Fuzz target: any bytes as the `config.json` of a model. The library's tests run the same body with values from proptest.
#![no_main]

#[path = "../../tests/configurations/any_bytes.rs"]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|data: &[u8]| any_bytes::any_bytes(data));
