//! Work that a plugin has begun.

use std::ffi::c_void;
use std::fmt;

use super::client::Client;
use super::error::Error;
use super::ffi::{self, Arguments, EventObject};
use super::object::Owned;
use super::plugin::Plugin;

/// Work that a plugin has begun and that may still run.
pub struct Event {
    /// Null for work that is done.
    object: Owned<ffi::EventDestroy>,
    /// Keeps the client alive, whose threads do the work.
    client: Client,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({:?})", self.object.get())
    }
}

impl Event {
    /// Takes an event of `client`; null is an event that has come.
    ///
    /// # Safety
    ///
    /// `object` is null or a live event of the client's plugin that nothing else frees.
    pub(super) unsafe fn new(client: Client, object: *mut EventObject) -> Self {
        // SAFETY: the caller's promise, and the client lives as long as the event.
        let object = unsafe { Owned::new(client.plugin(), object) };
        Self { object, client }
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

    /// Keeps `held` alive until the work is done or has failed. Where the plugin does not even take the request, `held` is
    /// never freed: when it may be is not known then.
    pub(super) fn hold<T: Send + 'static>(self, held: T) -> Result<(), Error> {
        if self.object.get().is_null() {
            return Ok(());
        }
        let held = Box::new(Held {
            plugin: self.client.plugin(),
            _held: held,
        });
        let mut ready = ffi::EventOnReady::of(self.object.get());
        ready.callback = Some(release::<T>);
        ready.user_arg = Box::into_raw(held).cast();
        // SAFETY: the event is alive; the plugin calls `release` once with this pointer, and it is of the type that `release`
        // frees.
        unsafe { self.client.plugin().ask(ready) }.map(drop)
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
    let _ = unsafe { held.plugin.check(ffi::EventOnReady::ENTRY, error) };
}
