//! Launches that CubeCL gave up: the command's result would be of memory that nothing wrote.
//!
//! Where the compiler of a kernel panics, CubeCL's thread drops the panic and goes on. Our own operations hear of it
//! (`moebius_shaders::checked`), Burn's do not, and a program hears of it from its panic hook only.

use std::panic::{self, PanicHookInfo};
use std::sync::OnceLock;
use std::thread;

use crate::error::CliError;

static FIRST: OnceLock<String> = OnceLock::new();

/// Listens to the threads that run devices, from now on.
pub(crate) fn listen() {
    let program = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        note(thread::current().name(), info);
        program(info);
    }));
}

fn note(thread: Option<&str>, info: &PanicHookInfo<'_>) {
    let device = |name: &str| name.starts_with("DSD-") || name.starts_with("DSU-");
    if thread.is_some_and(device) {
        let text = info.payload_as_str().unwrap_or("no message");
        FIRST.get_or_init(|| text.to_owned());
    }
}

/// Refuses a result if a device's thread has panicked.
///
/// # Errors
/// [`CliError::Launch`] with the first message.
pub(crate) fn check() -> Result<(), CliError> {
    FIRST
        .get()
        .map_or(Ok(()), |text| Err(CliError::Launch(text.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_devices_thread_is_an_error_and_others_are_not() {
        listen();
        let panics = |name: &str| {
            let thread = thread::Builder::new().name(name.to_owned());
            let thread = thread.spawn(|| std::panic::panic_any("planted".to_owned()));
            assert!(thread.unwrap().join().is_err());
        };
        panics("worker");
        assert!(check().is_ok());
        panics("DSD-0-0");
        let error = check().unwrap_err().to_string();
        assert_eq!(error, "a kernel could not be launched: planted");
    }
}
