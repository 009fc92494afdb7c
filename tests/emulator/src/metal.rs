//! Kernels of Metal's shading language on the grid. CubeCL reaches Metal through objects of Apple's frameworks, which no
//! library of ours can stand in for: whoever has a text launches it through this module, on memory of the card.

use std::ffi::{CString, c_void};
use std::ptr::null_mut;

use crate::compile::{Language, Source};
use crate::driver::launch::put;
use crate::driver::memory::{cuMemAlloc_v2, cuMemFree_v2, cuMemcpyDtoH_v2, cuMemcpyHtoD_v2};
use crate::driver::module::{Function, Module, cuModuleGetFunction, cuModuleLoadData};
use crate::driver::{SUCCESS, Status, context, status};
use crate::grid::Shape;
use crate::text::shared_bytes;

/// What a call came to: a status of the driver.
fn done(status: Status) -> Result<(), String> {
    match status {
        SUCCESS => Ok(()),
        failed => Err(format!("status {failed}; the report says more")),
    }
}

/// A buffer of the card.
#[derive(Debug)]
pub struct Buffer {
    address: u64,
    bytes: usize,
}

impl Buffer {
    /// Fresh memory, of a byte at least.
    ///
    /// # Errors
    ///
    /// The driver's status where the card has no more.
    pub fn new(bytes: usize) -> Result<Self, String> {
        let mut address = 0;
        // SAFETY: the address outlives the call.
        done(unsafe { cuMemAlloc_v2(&mut address, bytes.max(1)) })?;
        Ok(Self { address, bytes })
    }

    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Writes these bytes from `offset` on.
    ///
    /// # Errors
    ///
    /// Bytes that lie outside, and a driver whose context is lost.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), String> {
        self.check(offset, bytes.len())?;
        let to = self.address + offset as u64;
        // SAFETY: the place lies in the buffer.
        done(unsafe { cuMemcpyHtoD_v2(to, bytes.as_ptr().cast(), bytes.len()) })
    }

    /// So many bytes from `offset` on.
    ///
    /// # Errors
    ///
    /// As [`Buffer::write`].
    pub fn read(&self, offset: usize, bytes: usize) -> Result<Vec<u8>, String> {
        self.check(offset, bytes)?;
        let mut read = vec![0; bytes];
        let from = self.address + offset as u64;
        // SAFETY: the place lies in the buffer.
        done(unsafe { cuMemcpyDtoH_v2(read.as_mut_ptr().cast(), from, bytes) })?;
        Ok(read)
    }

    fn check(&self, offset: usize, bytes: usize) -> Result<(), String> {
        let end = offset.checked_add(bytes);
        let fits = end.is_some_and(|end| end <= self.bytes);
        let told = || {
            format!(
                "{bytes} bytes from {offset} on in a buffer of {}",
                self.bytes
            )
        };
        fits.then_some(()).ok_or_else(told)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: its own address, for the last time.
        unsafe { cuMemFree_v2(self.address) };
    }
}

/// A kernel of a text.
#[derive(Debug)]
pub struct Kernel {
    function: *const Function,
    shared_bytes: u32,
}

// SAFETY: functions are never freed, and constant.
unsafe impl Send for Kernel {}

impl Kernel {
    /// Compiles the kernel `name` of a text.
    ///
    /// # Errors
    ///
    /// What the compiler wrote, or that there is no such kernel.
    pub fn new(text: &str, name: &str) -> Result<Self, String> {
        let source = Source {
            language: Language::Metal,
            text: text.to_owned(),
        };
        source.object()?;
        let image = CString::new(source.image()).map_err(|error| error.to_string())?;
        let name = CString::new(name).map_err(|error| error.to_string())?;
        let (mut module, mut function): (*mut Module, _) = (null_mut(), std::ptr::null());
        // SAFETY: all pointers outlive their calls.
        unsafe {
            done(cuModuleLoadData(&mut module, image.as_ptr().cast()))?;
            done(cuModuleGetFunction(&mut function, module, name.as_ptr()))?;
        }
        Ok(Self {
            function,
            shared_bytes: shared_bytes(text),
        })
    }

    /// Runs it and waits.
    ///
    /// # Safety
    ///
    /// The arguments are addresses of as many buffers as the kernel takes, as large as it needs.
    ///
    /// # Errors
    ///
    /// The driver's status, of a fault in the kernel, too.
    pub unsafe fn launch(
        &self,
        grid: [u32; 3],
        block: [u32; 3],
        arguments: &[u64],
    ) -> Result<(), String> {
        let argument = |address: &u64| std::ptr::from_ref(address).cast();
        let arguments: Vec<*const c_void> = arguments.iter().map(argument).collect();
        let shape = Shape {
            grid: grid.into(),
            block: block.into(),
            shared_bytes: self.shared_bytes,
        };
        let arguments = arguments.as_ptr();
        // SAFETY: as the caller promises.
        let put = || unsafe {
            put(
                self.function,
                shape,
                null_mut(),
                arguments,
                std::ptr::null(),
            )
        };
        done(status(put))?;
        done(status(context))
    }
}
