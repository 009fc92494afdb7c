//! Fuzz target: any bytes as a chat template. The library's tests run the same body with bytes from proptest.
#![no_main]
#![allow(dead_code, reason = "the file has the bodies of all targets")]

#[path = "../../tests/hostile/any_bytes.rs"]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    any_bytes::any_template(&String::from_utf8_lossy(data));
});
