//! Kernels in Metal's shading language on the grid. CubeCL reaches Metal through Apple's frameworks, which no library of ours
//! can stand in for; so callers that have a kernel's text launch it through this module, on the card's memory.

use std::ffi::{CString, c_void};
use std::ptr::null_mut;

use crate::compile::{Language, Source};
use crate::driver::launch::put;
use crate::driver::memory::{cuMemAlloc_v2, cuMemFree_v2, cuMemcpyDtoH_v2, cuMemcpyHtoD_v2};
use crate::driver::module::{Function, Module, cuModuleGetFunction, cuModuleLoadData};
use crate::driver::{SUCCESS, Status, context, status};
use crate::grid::Shape;
use crate::text::shared_bytes;

/// Turns a driver's status into a result.
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
    /// Allocates a buffer of at least one byte.
    ///
    /// # Errors
    ///
    /// The driver's status if the card's memory is exhausted.
    pub fn new(bytes: usize) -> Result<Self, String> {
        let mut address = 0;
        // SAFETY: the address outlives the call.
        done(unsafe { cuMemAlloc_v2(&mut address, bytes.max(1)) })?;
        Ok(Self { address, bytes })
    }

    /// The buffer's address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Writes bytes at `offset`.
    ///
    /// # Errors
    ///
    /// The bytes lie outside the buffer, or the driver's context is lost.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), String> {
        self.check(offset, bytes.len())?;
        let to = self.address + offset as u64;
        // SAFETY: the place lies in the buffer.
        done(unsafe { cuMemcpyHtoD_v2(to, bytes.as_ptr().cast(), bytes.len()) })
    }

    /// Reads `bytes` bytes at `offset`.
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

/// A compiled kernel.
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
    /// The compiler's message, or that the text has no such kernel.
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

    /// Runs the kernel and waits for it.
    ///
    /// # Safety
    ///
    /// The arguments are addresses of as many buffers as the kernel takes, and the buffers are as large as it needs.
    ///
    /// # Errors
    ///
    /// The driver's status, also after a fault in the kernel.
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
