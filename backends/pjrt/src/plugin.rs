//! A loaded plugin, its function table, and the objects that it makes.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use libloading::Library;

use crate::error::{Code, Error};
use crate::ffi::{self, ApiHeader, Arguments, Entry};
use crate::hardware;
use crate::locate::{Environment, Platform, locate};
use crate::value::{self, Value};

/// The oldest version whose table has the order of [`Entry::place`]: 100 functions, up to
/// `PJRT_ExecuteContext_Destroy`.
const OLDEST: (c_int, c_int) = (0, 54);

/// Every plugin that this process has loaded, by its path.
static LOADED: Mutex<BTreeMap<PathBuf, Plugin>> = Mutex::new(BTreeMap::new());

/// A loaded PJRT plugin. It stays loaded until the process ends: plugins have threads and static destructors that do not
/// survive being unloaded.
#[derive(Clone, Copy)]
pub struct Plugin {
    api: &'static Api,
}

struct Api {
    path: PathBuf,
    platform: Platform,
    version: (c_int, c_int),
    table: Vec<Option<ffi::Function>>,
    extensions: Vec<c_int>,
    attributes: Vec<(String, Value)>,
    flags: String,
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin")
            .field("path", &self.api.path)
            .field("version", &self.api.version)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Plugin {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.api, other.api)
    }
}

impl Eq for Plugin {}

impl Plugin {
    /// Finds the platform's plugin with [`locate`] and loads it.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] with every place that was searched, and the errors of [`Self::load`].
    pub fn open(platform: Platform, environment: &Environment) -> Result<Self, Error> {
        let path =
            locate(platform, environment).map_err(|error| Error::NotFound(Box::new(error)))?;
        Self::load(platform, &path, environment)
    }

    /// Loads the plugin in the file `path`. Loading the same file again gives the same plugin.
    ///
    /// For [`Platform::Tpu`] on a machine without a TPU, this sets the environment variable `TPU_SKIP_MDS_QUERY` unless
    /// it is set: without it libtpu asks the metadata server of a cloud for minutes. A program with threads that read
    /// the environment through C must set the variable itself before it starts them.
    ///
    /// # Errors
    ///
    /// [`Error::Load`] for a file that is no plugin, [`Error::Version`] for a plugin of another version, and
    /// [`Error::Plugin`] when its initialisation fails.
    pub fn load(platform: Platform, path: &Path, environment: &Environment) -> Result<Self, Error> {
        let failed = |reason: String| Error::Load {
            path: path.to_owned(),
            reason,
        };
        let path = path
            .canonicalize()
            .map_err(|error| failed(error.to_string()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if platform != Platform::Tpu && name.starts_with("libtpu") {
            // libtpu's preparation must come before it is loaded.
            return Err(failed(format!(
                "libtpu drives TPUs, it was given for {platform}"
            )));
        }
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plugin) = loaded.get(&path) {
            return Ok(*plugin);
        }
        let flags = environment.flags(platform);
        if platform == Platform::Tpu && !environment.tpu_metadata_decided {
            hardware::prepare_libtpu(&environment.pci_devices);
        }
        let plugin = Self::start(platform, &path, flags)?;
        loaded.insert(path, plugin);
        Ok(plugin)
    }

    fn start(platform: Platform, path: &Path, flags: String) -> Result<Self, Error> {
        let (version, table, extensions) = open_table(path)?;
        let mut api = Api {
            path: path.to_owned(),
            platform,
            version,
            table,
            extensions,
            attributes: Vec::new(),
            flags,
        };
        // SAFETY: the record has no pointers, and this is the plugin's first call, as the header asks.
        unsafe { api.call(&mut ffi::PluginInitialize::new()) }?;
        let mut list = ffi::PluginAttributes::new();
        // SAFETY: the record has no pointers to set, and the attributes live as long as the process.
        api.attributes = unsafe {
            api.call(&mut list)?;
            value::read(list.attributes, list.num_attributes)
        };
        Ok(Self {
            api: Box::leak(Box::new(api)),
        })
    }

    /// The path of the plugin's file.
    pub fn path(&self) -> &'static Path {
        &self.api.path
    }

    /// The platform that the plugin drives.
    pub fn platform(&self) -> Platform {
        self.api.platform
    }

    /// The major and minor version of the C API that the plugin was built with.
    pub fn version(&self) -> (i32, i32) {
        self.api.version
    }

    /// The plugin's attributes, e.g. `xla_version` and `stablehlo_current_version`.
    pub fn attributes(&self) -> &'static [(String, Value)] {
        &self.api.attributes
    }

    /// The numbers of the plugin's extensions, values of `PJRT_Extension_Type`.
    pub fn extensions(&self) -> &'static [i32] {
        &self.api.extensions
    }

    /// The flags for the plugin's compiler that were set when it was loaded, as [`Environment`] gave them.
    pub(crate) fn flags(&self) -> &'static str {
        &self.api.flags
    }

    /// Calls the function that takes `arguments`, and returns the record as the function has filled it in.
    ///
    /// # Safety
    ///
    /// Every pointer in `arguments` is what the header asks of it: null where it may be, a live object of this plugin,
    /// or memory of the stated length that lives as long as the header says.
    pub(crate) unsafe fn ask<A: Arguments>(self, mut arguments: A) -> Result<A, Error> {
        // SAFETY: the caller's promise.
        unsafe { self.api.call(&mut arguments) }?;
        Ok(arguments)
    }
}

impl Api {
    /// The function of an entry.
    #[inline]
    fn function(&self, entry: Entry) -> Result<ffi::Function, Error> {
        let function = self.table.get(entry.place).copied().flatten();
        function.ok_or_else(|| Error::Missing {
            function: entry.name,
            plugin_version: self.version,
            entries: self.table.len(),
            needed: entry.place + 1,
        })
    }

    /// Calls a function: see [`Plugin::ask`].
    #[inline]
    unsafe fn call<A: Arguments>(&self, arguments: &mut A) -> Result<(), Error> {
        let function = self.function(A::ENTRY)?;
        // SAFETY: the function stands at the place of `A` in the table, so that it takes `A` (a promise of `Arguments`) and
        // returns null or an error; the pointers in it are the caller's promise.
        let error = unsafe { function(std::ptr::from_mut(arguments).cast()) };
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: the function's result is an error that the caller owns.
        Err(unsafe { self.take_error(A::ENTRY, error) })
    }

    /// Reads a plugin's error and frees it.
    ///
    /// # Safety
    ///
    /// `object` is a live error of this plugin that nothing else frees.
    #[cold]
    unsafe fn take_error(&self, entry: Entry, object: *mut ffi::ErrorObject) -> Error {
        let mut message = ffi::ErrorMessage::of(object);
        let mut code = ffi::ErrorGetCode::of(object);
        // SAFETY: the object is alive until it is destroyed below; the message lives as long as it.
        let text = unsafe {
            self.call_void(&mut message);
            value::text(message.message, message.message_size)
        };
        // SAFETY: the object is alive. An error while the code is read would itself need reading: it is freed unread, and the
        // code stays zero.
        unsafe {
            if let Ok(function) = self.function(ffi::ErrorGetCode::ENTRY) {
                let inner = function(std::ptr::from_mut(&mut code).cast());
                self.free_error(inner);
            }
            self.free_error(object);
        }
        Error::Plugin {
            function: entry.name,
            code: Code::from_number(code.code),
            message: text,
        }
    }

    /// Frees an error unread; null is allowed.
    ///
    /// # Safety
    ///
    /// `object` is null or a live error of this plugin that nothing else frees.
    unsafe fn free_error(&self, object: *mut ffi::ErrorObject) {
        // SAFETY: the caller's promise; the function accepts null.
        unsafe { self.call_void(&mut ffi::ErrorDestroy::of(object)) };
    }

    /// Calls one of the two functions that return nothing.
    ///
    /// # Safety
    ///
    /// As for [`Plugin::ask`], and the function returns nothing.
    unsafe fn call_void<A: Arguments>(&self, arguments: &mut A) {
        let Ok(function) = self.function(A::ENTRY) else {
            return;
        };
        // SAFETY: a function pointer of the same parameters; that it returns nothing is the caller's promise.
        let function = unsafe {
            std::mem::transmute::<ffi::Function, unsafe extern "C" fn(*mut std::ffi::c_void)>(
                function,
            )
        };
        // SAFETY: the caller's promise.
        unsafe { function(std::ptr::from_mut(arguments).cast()) };
    }
}

type Opened = ((c_int, c_int), Vec<Option<ffi::Function>>, Vec<c_int>);

/// Opens a library and copies its function table.
fn open_table(path: &Path) -> Result<Opened, Error> {
    let failed = |reason: String| Error::Load {
        path: path.to_owned(),
        reason,
    };
    // SAFETY: opening a library runs its initialisers. The user chose the file as a PJRT plugin; there is no way to know
    // what it does beforehand.
    let library = unsafe { Library::new(path) }.map_err(|error| failed(error.to_string()))?;
    // SAFETY: the header declares `const PJRT_Api* GetPjrtApi()`.
    let header = unsafe {
        let get = library.get::<unsafe extern "C" fn() -> *const ApiHeader>(b"GetPjrtApi\0");
        let get = get.map_err(|error| failed(format!("no PJRT plugin: {error}")))?;
        get()
    };
    // The library is never unloaded: the table and the plugin's threads are in it.
    std::mem::forget(library);
    if header.is_null() {
        return Err(failed("GetPjrtApi gives no table".to_owned()));
    }
    // SAFETY: not null, and a table that lives as long as the library.
    unsafe { read_table(path, header) }
}

/// Copies a function table and the numbers of the extensions.
///
/// # Safety
///
/// `header` begins a table of the PJRT API that is as long as its `struct_size` says, with a chain of extensions that ends.
unsafe fn read_table(path: &Path, header: *const ApiHeader) -> Result<Opened, Error> {
    // SAFETY: the caller's promise; every version of the API starts with these fields.
    let fields = unsafe { &*header };
    let version = (fields.major, fields.minor);
    if version.0 != OLDEST.0 || version.1 < OLDEST.1 {
        return Err(Error::Version {
            path: path.to_owned(),
            version,
            needed: OLDEST,
        });
    }
    let bytes = fields.struct_size.saturating_sub(size_of::<ApiHeader>());
    let count = bytes / size_of::<ffi::Function>();
    // SAFETY: `struct_size` is the size of the table, so that as many pointers follow the header, each null or a function.
    let table = unsafe {
        let first = header.add(1).cast::<Option<ffi::Function>>();
        std::slice::from_raw_parts(first, count).to_vec()
    };
    let mut extensions = Vec::new();
    let mut next = fields.extensions;
    while !next.is_null() {
        // SAFETY: a chain that ends in null, of records that live as long as the plugin.
        let extension = unsafe { &*next };
        extensions.push(extension.kind);
        next = extension.next;
    }
    Ok((version, table, extensions))
}

/// The record of a function that destroys an object.
pub(crate) trait Destroy: Arguments {
    /// The type of object that the function destroys.
    type Object;

    /// The record that destroys `object`.
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

/// An object of a plugin, or null; dropping the owner destroys the object.
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
    /// Takes ownership of an object.
    ///
    /// # Safety
    ///
    /// `object` is null or a live object of the plugin that nothing else destroys. What it needs lives as long as it.
    pub(crate) unsafe fn new(plugin: Plugin, object: *mut D::Object) -> Self {
        Self { plugin, object }
    }

    /// The object, alive as long as its owner.
    pub(crate) fn get(&self) -> *mut D::Object {
        self.object
    }

    /// The plugin that the object belongs to.
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

#[cfg(test)]
#[path = "plugin_tests.rs"]
mod tests;
