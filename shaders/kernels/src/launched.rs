//! Telling tests which kernels are launched.
//!
//! A launch is named like the entry of `kernels()` that compiles to the same code up to tile shapes and vector
//! widths. On a CPU runtime the name may stand for a body that was written for processors.

#[cfg(feature = "emit")]
pub use listener::listen;
#[cfg(feature = "emit")]
pub(crate) use listener::{note, record};

#[cfg(feature = "emit")]
mod listener {
    use std::cell::RefCell;
    use std::sync::OnceLock;

    static LISTENER: OnceLock<fn(String)> = OnceLock::new();

    thread_local! {
        static RECORD: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
    }

    /// What `launch` returns, and the names of the kernels that it launches on this thread; the listener doesn't hear of them.
    pub(crate) fn record<T>(launch: impl FnOnce() -> T) -> (T, Vec<String>) {
        RECORD.set(Some(Vec::new()));
        let result = launch();
        (result, RECORD.take().unwrap_or_default())
    }

    /// Calls `listener` with the name of every kernel of this crate from now on, on the thread that launches it and just
    /// before CubeCL's own observers hear of the launch. Returns whether it is the first of this process: there is one, and it
    /// stays. Without one a launch costs an atomic load more.
    pub fn listen(listener: fn(String)) -> bool {
        LISTENER.set(listener).is_ok()
    }

    /// Tells the record of this thread or the listener, if there is one.
    pub(crate) fn note<N: Into<String>>(name: impl FnOnce() -> N) {
        let recorded = RECORD.with_borrow(Option::is_some);
        if recorded {
            let name = name().into();
            RECORD.with_borrow_mut(|names| names.get_or_insert_default().push(name));
        } else if let Some(listener) = LISTENER.get() {
            listener(name().into());
        }
    }
}

/// This build has no listener.
#[cfg(not(feature = "emit"))]
pub(crate) fn note<N: Into<String>>(_name: impl FnOnce() -> N) {}

/// `suffix` where `present`, as names of kernels have it.
pub(crate) fn suffix(present: bool, suffix: &'static str) -> &'static str {
    if present { suffix } else { "" }
}
