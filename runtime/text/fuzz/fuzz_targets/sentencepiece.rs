//! Fuzz target: any bytes as a `tokenizer.model`. The library's tests run the same body with bytes from proptest.
#![no_main]
#![allow(dead_code, reason = "the file has the bodies of all targets")]

#[path = "../../tests/hostile/any_bytes.rs"]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = any_bytes::any_model(data);
});
