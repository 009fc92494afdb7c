//! Ctrl-C: it ends an answer, and the program where there is none.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::CliError;

const WAITING: u8 = 0;
const ANSWERING: u8 = 1;
const INTERRUPTED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(WAITING);

/// The exit status of a program that Ctrl-C ended, as shells have it.
const ENDED: i32 = 130;

/// Takes Ctrl-C from now on.
pub(super) fn listen() -> Result<(), CliError> {
    let taken = ctrlc::set_handler(|| {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let ends = STATE.compare_exchange(ANSWERING, INTERRUPTED, order.0, order.1);
        // Nothing is shown yet that isn't written; a second Ctrl-C ends a step that takes too long.
        if ends.is_err() {
            std::process::exit(ENDED);
        }
    });
    taken.map_err(|error| CliError::usage(format!("Ctrl-C can't be taken: {error}"), None))
}

/// Whether Ctrl-C came since the answer began.
pub(super) fn came() -> bool {
    STATE.load(Ordering::Acquire) == INTERRUPTED
}

/// An answer, while it is made.
pub(super) struct Answering(());

impl Answering {
    pub(super) fn begin() -> Self {
        STATE.store(ANSWERING, Ordering::Release);
        Self(())
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        STATE.store(WAITING, Ordering::Release);
    }
}
