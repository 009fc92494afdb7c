//! Operations on FP8 codes and on rows, run by a plugin and compared with plain Rust.

mod casts;
mod codec;
mod plugin;
mod quantize;
