//! Work that a plugin has begun.

use std::ffi::c_void;

use super::client::Client;
use super::entries::Entry;
use super::error::Error;
use super::ffi::{self, EventObject};
use super::plugin::Plugin;

/// Work that a plugin has begun and that may still run.
#[derive(Debug)]
pub struct Event {
    /// Keeps the client alive, whose threads do the work.
    client: Client,
    object: *mut EventObject,
}

// SAFETY: events of the C API may be used from any thread, several at a time; waiting and asking do not change them.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Takes an event of `client`; null is an event that has come.
    ///
    /// # Safety
    ///
    /// `object` is null or a live event of the client's plugin that nothing else frees.
    pub(super) unsafe fn new(client: Client, object: *mut EventObject) -> Self {
        Self { client, object }
    }

    /// Waits until the work is done. May be called again, with the same result.
    ///
    /// # Errors
    ///
    /// The plugin's, if the work failed.
    pub fn wait(&self) -> Result<(), Error> {
        if self.object.is_null() {
            return Ok(());
        }
        let mut wait = ffi::EventAwait::new();
        wait.event = self.object;
        // SAFETY: the event is alive until it is dropped.
        unsafe { self.client.plugin().call(&mut wait) }
    }

    /// Whether the work is done or has failed.
    ///
    /// # Errors
    ///
    /// The plugin's, if it cannot say.
    pub fn is_ready(&self) -> Result<bool, Error> {
        if self.object.is_null() {
            return Ok(true);
        }
        let mut ready = ffi::EventIsReady::new();
        ready.event = self.object;
        // SAFETY: the event is alive until it is dropped.
        unsafe { self.client.plugin().call(&mut ready) }?;
        Ok(ready.is_ready)
    }

    /// Keeps `held` alive until the work is done or has failed. Where the plugin does not even take the request, `held` is
    /// never freed: when it may be is not known then.
    pub(super) fn hold<T: Send + 'static>(self, held: T) -> Result<(), Error> {
        if self.object.is_null() {
            return Ok(());
        }
        let held = Box::new(Held {
            plugin: self.client.plugin(),
            _held: held,
        });
        let mut ready = ffi::EventOnReady::new();
        ready.event = self.object;
        ready.callback = Some(release::<T>);
        ready.user_arg = Box::into_raw(held).cast();
        // SAFETY: the event is alive; the plugin calls `release` once with this pointer, and it is of the type that `release`
        // frees.
        unsafe { self.client.plugin().call(&mut ready) }
    }
}

struct Held<T> {
    plugin: Plugin,
    _held: T,
}

/// Frees what an event kept alive.
///
/// # Safety
///
/// `held` comes from `Box::into_raw` of a `Box<Held<T>>` and is passed once; `error` is null or an error that is ours.
unsafe extern "C" fn release<T>(error: *mut ffi::ErrorObject, held: *mut c_void) {
    // SAFETY: the caller's promise.
    let held = unsafe { Box::from_raw(held.cast::<Held<T>>()) };
    // SAFETY: the caller's promise. What failed is told by the buffer's own event.
    let _ = unsafe { held.plugin.check(Entry::EventOnReady, error) };
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.object.is_null() {
            return;
        }
        let mut destroy = ffi::EventDestroy::new();
        destroy.event = self.object;
        // SAFETY: the event is alive and is not used again. Nothing can be done about an error here.
        let _ = unsafe { self.client.plugin().call(&mut destroy) };
    }
}
