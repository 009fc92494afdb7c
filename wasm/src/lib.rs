//! Mixture-of-experts layers, attention and FP8 in the browser: the interface for JavaScript.
//!
//! `scripts/wasm` builds it as an ES module, `wasm/pkg/moebius.js`, for pages and workers. Classes are made on a
//! [`Device`]; numbers cross as typed arrays, options and results as plain objects that `types.d.ts` describes. Calls
//! that wait for the device return promises, and nothing blocks. Every error is an `Error` with a `code`. Like all of
//! Moebius, it computes only on the device: a page without WebGPU gets an error, not a slow answer.

mod attention;
mod bench;
mod console;
mod constructors;
mod device;
mod failure;
mod linear;
mod moe;
mod objects;
mod text;
mod training;
mod work;

pub use attention::attention;
pub use bench::bench;
pub use device::{Device, version};
pub use linear::{Fp8Linear, Matmul};
pub use moe::MoeLayer;
pub use text::{AdapterTraining, TextModel};
pub use training::MoeTraining;

use wasm_bindgen::prelude::wasm_bindgen;

/// TypeScript types of options and results.
#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = include_str!("types.d.ts");

/// Runs when the module is loaded; makes panics show in the console with their place.
#[wasm_bindgen(start)]
fn start() {
    constructors::run();
    console::report_panics();
}
