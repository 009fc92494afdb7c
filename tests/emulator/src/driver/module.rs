//! Modules and their kernels. An image is a text; its shared object is loaded into the process.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};

use super::{
    INVALID_HANDLE, INVALID_PTX, INVALID_SOURCE, INVALID_VALUE, NOT_FOUND, Status, answer, context,
    destroy,
};
use crate::compile::Source;
use crate::grid::state::KernelEntry;
use crate::settings;

/// Bytes of shared memory that a block may use without opting in.
pub(crate) const USUAL_SHARED: c_int = 48 << 10;

/// A `CUmodule`.
#[derive(Debug)]
pub struct Module {
    library: *mut c_void,
    source: &'static Source,
}

/// A `CUfunction`. It lives as long as the process: no call releases it.
#[derive(Debug)]
pub struct Function {
    pub(crate) entry: *const KernelEntry,
    pub(crate) source: &'static Source,
    pub(crate) name: String,
    pub(crate) most_shared: AtomicI32,
}

// SAFETY: the entry is constant data of a library that is never unloaded.
unsafe impl Sync for Function {}

impl Function {
    pub(crate) fn entry(&self) -> &'static KernelEntry {
        // SAFETY: as above.
        unsafe { &*self.entry }
    }
}

fn load(object: &Path) -> Result<*mut c_void, Status> {
    let path = CString::new(object.as_os_str().as_encoded_bytes()).map_err(|_| INVALID_VALUE)?;
    // SAFETY: an object that this crate compiled; it has no initialisers.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        // SAFETY: the text of the failure just now.
        let reason = unsafe { CStr::from_ptr(libc::dlerror()) };
        eprintln!("moebius-emulator: {}", reason.to_string_lossy());
        return Err(INVALID_PTX);
    }
    Ok(library)
}

/// `CUfunction_attribute`, by the numbers of `cuda.h`.
const MAX_THREADS: c_int = 0;
const BINARY_VERSION: c_int = 6;
const MAX_DYNAMIC_SHARED: c_int = 8;
const CARVEOUT: c_int = 9;
const LAST: c_int = 16;

functions! {
    fn cuModuleLoadData(to: *mut *mut Module, image: *const c_void) {
        context()?;
        if image.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: an image of ours is a text with an end; so is PTX.
        let image = unsafe { CStr::from_ptr(image.cast()) };
        let Some(source) = image.to_str().ok().and_then(Source::of_image) else {
            eprintln!("moebius-emulator: a module that this emulator did not compile; only CUDA C++ can be run, not PTX");
            return Err(INVALID_PTX);
        };
        let object = source.object().map_err(|log| {
            eprintln!("moebius-emulator: {log}");
            INVALID_SOURCE
        })?;
        let module = Module { library: load(&object)?, source: Box::leak(Box::new(source)) };
        // SAFETY: the caller's pointer.
        unsafe { answer(to, Box::into_raw(Box::new(module))) }
    }

    /// Frees the module but keeps its code, because functions of it may be in use.
    fn cuModuleUnload(module: *mut Module) {
        // SAFETY: from `cuModuleLoadData`, and the caller's last use.
        unsafe { destroy(module) }
    }

    fn cuModuleGetFunction(to: *mut *const Function, module: *mut Module, name: *const c_char) {
        // SAFETY: the caller's module and name.
        let (module, name) = unsafe { (module.as_ref().ok_or(INVALID_HANDLE)?, CStr::from_ptr(name)) };
        let name = name.to_str().map_err(|_| NOT_FOUND)?;
        let symbol = CString::new(format!("emu_kernel_{name}")).map_err(|_| NOT_FOUND)?;
        // SAFETY: a loaded library; the symbol is an entry, as `EMU_KERNEL` of grid.h defines it.
        let entry: *const KernelEntry = unsafe { libc::dlsym(module.library, symbol.as_ptr()) }.cast();
        if entry.is_null() {
            return Err(NOT_FOUND);
        }
        let function: &'static Function = Box::leak(Box::new(Function {
            entry,
            source: module.source,
            name: name.to_owned(),
            most_shared: AtomicI32::new(USUAL_SHARED),
        }));
        // SAFETY: the caller's pointer.
        unsafe { answer(to, function) }
    }

    fn cuFuncSetAttribute(function: *const Function, attribute: c_int, value: c_int) {
        context()?;
        // SAFETY: the caller's function.
        let function = unsafe { function.as_ref() }.ok_or(INVALID_HANDLE)?;
        match attribute {
            MAX_DYNAMIC_SHARED if (0..=settings::get().card.shared_bytes_of_block).contains(&value) => {
                function.most_shared.store(value, Ordering::Relaxed);
                Ok(())
            }
            CARVEOUT => Ok(()),
            _ => Err(INVALID_VALUE),
        }
    }

    fn cuFuncGetAttribute(to: *mut c_int, attribute: c_int, function: *const Function) {
        // SAFETY: the caller's function.
        let function = unsafe { function.as_ref() }.ok_or(INVALID_HANDLE)?;
        let (major, minor) = super::device::capability()?;
        let value = match attribute {
            MAX_THREADS => function.entry().most_threads as c_int,
            BINARY_VERSION => major * 10 + minor,
            MAX_DYNAMIC_SHARED => function.most_shared.load(Ordering::Relaxed),
            other if (0..=LAST).contains(&other) => 0,
            _ => return Err(INVALID_VALUE),
        };
        // SAFETY: the caller's pointer.
        unsafe { answer(to, value) }
    }

    /// Ignores registers, which aren't counted.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(to: *mut c_int, _function: *const Function, threads: c_int, shared: usize) {
        let card = settings::get().card;
        if threads <= 0 {
            return Err(INVALID_VALUE);
        }
        let reserved = 1 << 10;
        let shared = c_int::try_from(shared).map_err(|_| INVALID_VALUE)? + reserved;
        let blocks = card.blocks_of_multiprocessor.min(card.threads_of_multiprocessor / threads);
        // SAFETY: the caller's pointer.
        unsafe { answer(to, blocks.min(card.shared_bytes / shared)) }
    }
}

renamed! {
    /// Ignores the options, which concern PTX.
    fn cuModuleLoadDataEx(
        to: *mut *mut Module, image: *const c_void, _count: c_uint, _options: *mut c_int, _values: *mut *mut c_void,
    ) = cuModuleLoadData(to, image);
}
