//! How many kernels a thread launches, and a hook that tells tests which they are.
//!
//! A launch has the name of the entry of `kernels()` that compiles to the same code up to tile shapes and vector widths. On a CPU
//! runtime the name may stand for a variant that was written for processors.

use std::cell::Cell;

#[cfg(feature = "emit")]
pub use listener::listen;
#[cfg(feature = "emit")]
pub(crate) use listener::record;

thread_local! {
    /// The number of kernels of this crate that the thread has launched.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Runs `launch`; returns the number of kernels of this crate that it launches on this thread.
pub fn counted(launch: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    launch();
    COUNT.get().wrapping_sub(before)
}

/// Counts the launch that follows, and has the listener of tests hear of it.
pub(crate) fn note<N: Into<String>>(name: impl FnOnce() -> N) {
    COUNT.set(COUNT.get().wrapping_add(1));
    #[cfg(feature = "emit")]
    listener::note(name);
    #[cfg(not(feature = "emit"))]
    let _ = name;
}

#[cfg(feature = "emit")]
mod listener {
    use std::cell::RefCell;
    use std::sync::OnceLock;

    static LISTENER: OnceLock<fn(String)> = OnceLock::new();

    thread_local! {
        static RECORD: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
    }

    /// Runs `launch`; returns its result, and the names of the kernels that it launches on this thread, which the listener
    /// doesn't get.
    pub(crate) fn record<T>(launch: impl FnOnce() -> T) -> (T, Vec<String>) {
        RECORD.set(Some(Vec::new()));
        let result = launch();
        (result, RECORD.take().unwrap_or_default())
    }

    /// Installs `listener`, which from now on gets the name of every kernel of this crate, on the launching thread and just
    /// before CubeCL's own observers hear of the launch. Returns whether it was installed: a process has one listener, and it
    /// stays. Without a listener, a launch costs one more atomic load.
    pub fn listen(listener: fn(String)) -> bool {
        LISTENER.set(listener).is_ok()
    }

    /// Passes a kernel's name to this thread's record, or else to the listener if there is one.
    pub(super) fn note<N: Into<String>>(name: impl FnOnce() -> N) {
        let recorded = RECORD.with_borrow(Option::is_some);
        if recorded {
            let name = name().into();
            RECORD.with_borrow_mut(|names| names.get_or_insert_default().push(name));
        } else if let Some(listener) = LISTENER.get() {
            listener(name().into());
        }
    }
}

/// `suffix` if `present`, else an empty string, for names of kernels.
pub(crate) fn suffix(present: bool, suffix: &'static str) -> &'static str {
    if present { suffix } else { "" }
}
