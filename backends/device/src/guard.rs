//! Runs a driver's start-up code so that its panic becomes an error instead of a crash.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The name of the threads that this crate starts under [`quietly`].
#[cfg(feature = "cuda")]
pub(crate) const PROBE_THREAD: &str = "moebius-probe";

/// Held while the panic hook is replaced, because the process has only one.
static HOOK: Mutex<()> = Mutex::new(());

/// Runs `start` and returns a panic's first message as the error, printing nothing.
///
/// CubeCL starts a runtime on a thread of its own and drops that thread's message: the caller only sees a closed
/// channel. So the hook also listens to those threads (named `DSU-…`, `DSD-…`); panics elsewhere go to the program's
/// own hook as before. Where panics abort, this function prevents nothing, so callers check for a driver first.
///
/// Not reentrant: `start` must not call `quietly`.
pub(crate) fn quietly<T>(start: impl FnOnce() -> T) -> Result<T, String> {
    if thread::panicking() {
        // A panicking thread can't change the hook.
        return Ok(start());
    }
    let _turn = HOOK.lock().unwrap_or_else(PoisonError::into_inner);
    let heard = Arc::new(Mutex::new(None));
    let program = Arc::new(panic::take_hook());
    panic::set_hook(listener(Arc::clone(&heard), Arc::clone(&program)));

    let outcome = panic::catch_unwind(AssertUnwindSafe(start));

    drop(panic::take_hook());
    panic::set_hook(match Arc::try_unwrap(program) {
        Ok(hook) => hook,
        // Another thread is panicking through the listener at this moment and still holds the program's hook.
        Err(shared) => Box::new(move |info| shared(info)),
    });
    outcome.map_err(|payload| {
        let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.take().unwrap_or_else(|| message(payload.as_ref()))
    })
}

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Sync + Send + 'static>;

fn listener(heard: Arc<Mutex<Option<String>>>, program: Arc<Hook>) -> Hook {
    let caller = thread::current().id();
    Box::new(move |info| {
        let current = thread::current();
        if current.id() == caller || current.name().is_some_and(starts_devices) {
            heard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert_with(|| message(info.payload()));
        } else {
            program(info);
        }
    })
}

fn starts_devices(name: &str) -> bool {
    #[cfg(feature = "cuda")]
    if name == PROBE_THREAD {
        return true;
    }
    name.starts_with("DSU-") || name.starts_with("DSD-")
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("the driver gave no reason");
    // Keep one line: some drivers' messages continue with a list of every path tried.
    text.lines().next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
