//! Errors on their way to JavaScript: thrown ones with a code, and a bug's panic on the console.

use js_sys::Reflect;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(catch, js_namespace = console, js_name = error)]
    fn write(error: &js_sys::Error) -> Result<(), JsValue>;
}

/// An `Error` named `MoebiusError` with a `code`.
pub(crate) fn error(code: &str, message: &str) -> JsValue {
    let error = js_sys::Error::new(message);
    error.set_name("MoebiusError");
    let error: JsValue = error.unchecked_into();
    // An error is an ordinary object: nothing keeps it from taking a property.
    let _ = Reflect::set(&error, &"code".into(), &code.into());
    error
}

/// Makes a panic show in the console with its place.
pub(crate) fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let error = js_sys::Error::new(&format!("moebius has a bug: {panic}"));
        // Without a console there is no place to report to.
        let _ = write(&error);
    }));
}
