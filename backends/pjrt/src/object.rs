//! Objects of a plugin that are ours.

use std::fmt;

use crate::error::Error;
use crate::ffi::{self, Arguments};
use crate::plugin::Plugin;

/// The record of a function that destroys an object.
pub(crate) trait Destroy: Arguments {
    /// What it destroys.
    type Object;

    /// The record for this object.
    fn destroy(object: *mut Self::Object) -> Self;
}

macro_rules! destroys {
    ($($object:ident: $record:ident)*) => {$(
        impl Destroy for ffi::$record {
            type Object = ffi::$object;

            fn destroy(object: *mut ffi::$object) -> Self {
                Self::of(object)
            }
        }
    )*};
}

destroys! {
    BufferObject: BufferDestroy
    ClientObject: ClientDestroy
    EventObject: EventDestroy
    ExecutableObject: ExecutableDestroy
    LoadedObject: LoadedExecutableDestroy
    TopologyObject: TopologyDescriptionDestroy
}

/// An object of a plugin, or null, that is destroyed when this is dropped.
pub(crate) struct Owned<D: Destroy> {
    plugin: Plugin,
    object: *mut D::Object,
}

impl<D: Destroy> fmt::Debug for Owned<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(f)
    }
}

// SAFETY: these objects may be used from any thread, several at a time: the C API says so, and plugins lock what they change.
unsafe impl<D: Destroy> Send for Owned<D> {}
// SAFETY: as above.
unsafe impl<D: Destroy> Sync for Owned<D> {}

impl<D: Destroy> Owned<D> {
    /// Takes an object.
    ///
    /// # Safety
    ///
    /// `object` is null or a live object of the plugin that nothing else destroys. What it needs lives as long as it.
    pub(crate) unsafe fn new(plugin: Plugin, object: *mut D::Object) -> Self {
        Self { plugin, object }
    }

    /// The object, alive as long as this.
    pub(crate) fn get(&self) -> *mut D::Object {
        self.object
    }

    /// The plugin that it is of.
    pub(crate) fn plugin(&self) -> Plugin {
        self.plugin
    }

    /// Calls a function with the record that `of` makes for the object.
    ///
    /// # Safety
    ///
    /// As for [`Plugin::ask`]; the object itself is alive.
    pub(crate) unsafe fn ask<A: Arguments>(
        &self,
        of: impl FnOnce(*mut D::Object) -> A,
    ) -> Result<A, Error> {
        // SAFETY: the caller's promise.
        unsafe { self.plugin.ask(of(self.object)) }
    }
}

impl<D: Destroy> Drop for Owned<D> {
    fn drop(&mut self) {
        if !self.object.is_null() {
            // SAFETY: the object is alive and is not used again. Nothing can be done about an error here.
            let _ = unsafe { self.plugin.ask(D::destroy(self.object)) };
        }
    }
}
