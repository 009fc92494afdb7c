//! Errors for JavaScript: those that are thrown, with a code, and panics, which go to the console.

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
    // Setting a property of an ordinary object such as an error can't fail.
    let _ = Reflect::set(&error, &"code".into(), &code.into());
    error
}

/// Makes panics show in the console, with their place in the code.
pub(crate) fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let error = js_sys::Error::new(&format!("moebius has a bug: {panic}"));
        // Without a console, there is no place to report to.
        let _ = write(&error);
    }));
}
