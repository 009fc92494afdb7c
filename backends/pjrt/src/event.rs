//! Work that a plugin has begun.

use crate::client::Client;
use crate::error::Error;
use crate::ffi::{self, EventObject};
use crate::object::Owned;

/// Work that a plugin has begun and that may still run.
#[derive(Debug)]
pub struct Event {
    /// Null for work that is done.
    object: Owned<ffi::EventDestroy>,
    /// Keeps the client alive, whose threads do the work.
    _client: Client,
}

impl Event {
    /// Takes an event of `client`; null is an event that has come.
    ///
    /// # Safety
    ///
    /// `object` is null or a live event of the client's plugin that nothing else frees.
    pub(crate) unsafe fn new(client: Client, object: *mut EventObject) -> Self {
        // SAFETY: the caller's promise, and the client lives as long as the event.
        let object = unsafe { Owned::new(client.plugin(), object) };
        Self {
            object,
            _client: client,
        }
    }

    /// Waits until the work is done. May be called again, with the same result.
    ///
    /// # Errors
    ///
    /// The plugin's, if the work failed.
    pub fn wait(&self) -> Result<(), Error> {
        if self.object.get().is_null() {
            return Ok(());
        }
        // SAFETY: the event is alive until it is dropped.
        unsafe { self.object.ask(ffi::EventAwait::of) }.map(drop)
    }

    /// Whether the work is done or has failed.
    ///
    /// # Errors
    ///
    /// The plugin's, if it cannot say.
    pub fn is_ready(&self) -> Result<bool, Error> {
        if self.object.get().is_null() {
            return Ok(true);
        }
        // SAFETY: the event is alive until it is dropped.
        unsafe { Ok(self.object.ask(ffi::EventIsReady::of)?.is_ready) }
    }
}
