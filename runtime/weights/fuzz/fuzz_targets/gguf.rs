//! Fuzz target: any bytes as a GGUF file. The library's tests run the same body with bytes from proptest.
#![no_main]

#[path = "../../tests/gguf/any_bytes.rs"]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|data: &[u8]| any_bytes::any_bytes(data));
