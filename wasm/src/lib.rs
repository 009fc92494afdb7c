//! Mixture-of-experts layers, attention and FP8 in the browser: the surface that JavaScript sees.
//!
//! `scripts/wasm` makes an ES module of it, `wasm/pkg/moebius.js`, for pages and workers. Classes are made
//! on a [`Device`]; numbers cross as typed arrays, options and results as plain objects that `types.d.ts`
//! describes. Whatever waits for the device is a promise, and nothing blocks. Every error is an `Error` with
//! a `code`. Like all of Moebius it computes on the device alone: a page without WebGPU gets an error,
//! not a slow answer.

mod attention;
mod bench;
mod constructors;
mod device;
mod failure;
mod linear;
mod moe;
mod moe_options;
mod options;
mod record;
mod report;
mod text;
mod training;
mod work;

pub use attention::attention;
pub use bench::bench;
pub use device::{Device, version};
pub use linear::{Fp8Linear, Matmul};
pub use moe::MoeLayer;
pub use text::TextModel;
pub use training::MoeTraining;

use wasm_bindgen::prelude::wasm_bindgen;

/// The types of options and results.
#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = include_str!("types.d.ts");

/// Runs when the module is loaded: a bug's panic shows in the console with its place.
#[wasm_bindgen(start)]
fn start() {
    constructors::run();
    std::panic::set_hook(Box::new(|panic| {
        let error = js_sys::Error::new(&format!("moebius has a bug: {panic}"));
        console(&error);
    }));
}

fn console(error: &js_sys::Error) {
    use js_sys::{Function, Reflect};
    let console = Reflect::get(&js_sys::global(), &"console".into());
    // Without a console there is no place to report to.
    let _ = console.and_then(|console| {
        let write = Reflect::get(&console, &"error".into())?;
        Function::from(write).call1(&console, error)
    });
}
