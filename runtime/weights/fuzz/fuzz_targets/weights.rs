//! Any bytes as a file of weights; the body is one of the library's tests, too, with bytes from proptest.
#![no_main]

#[path = "../../tests/weights/any_bytes.rs"]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|data: &[u8]| any_bytes::any_bytes(data));
