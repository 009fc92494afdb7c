//! A guard around the library of tokenizers, which panics on some files that contradict themselves: a merge whose result is
//! longer than every token, a decoder that is asked to strip more than there is.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What `call` returns, or what it said when it panicked.
pub(crate) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        text.unwrap_or("a panic").to_owned()
    })
}
