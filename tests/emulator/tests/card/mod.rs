//! A card for tests to launch kernels on, through the functions that CubeCL calls.
#![allow(unsafe_code, reason = "the emulator is a C interface")]
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "only tests are here")]

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::null_mut;

use moebius_emulator::driver::launch::cuLaunchKernel;
use moebius_emulator::driver::memory::{
    cuMemAlloc_v2, cuMemFree_v2, cuMemcpyDtoH_v2, cuMemcpyHtoD_v2,
};
use moebius_emulator::driver::module::{Function, Module, cuModuleGetFunction, cuModuleLoadData};
use moebius_emulator::driver::stream::Stream;
use moebius_emulator::{driver, hip, nvrtc};

/// A buffer of the card.
pub(crate) struct Buffer {
    pub(crate) address: u64,
    bytes: usize,
}

impl Buffer {
    pub(crate) fn new(bytes: usize) -> Buffer {
        let mut address = 0;
        // SAFETY: the address outlives the call.
        let status = unsafe { cuMemAlloc_v2(&mut address, bytes) };
        assert_eq!(status, driver::SUCCESS);
        Buffer { address, bytes }
    }

    pub(crate) fn of<T: Copy>(values: &[T]) -> Buffer {
        let buffer = Buffer::new(size_of_val(values));
        // SAFETY: the buffer is as large as the values.
        let status =
            unsafe { cuMemcpyHtoD_v2(buffer.address, values.as_ptr().cast(), buffer.bytes) };
        assert_eq!(status, driver::SUCCESS);
        buffer
    }

    pub(crate) fn read<T: Copy + Default>(&self) -> Vec<T> {
        let mut values = vec![T::default(); self.bytes / size_of::<T>()];
        // SAFETY: the values are as large as the buffer.
        let status =
            unsafe { cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), self.address, self.bytes) };
        assert_eq!(status, driver::SUCCESS);
        values
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: this buffer's address.
        unsafe { cuMemFree_v2(self.address) };
    }
}

/// Whether the card in the environment is AMD's.
fn is_amds() -> bool {
    std::env::var("MOEBIUS_EMULATOR_CARD")
        .is_ok_and(|card| card.starts_with("mi") || card.starts_with("rx"))
}

/// Compiles a text in the card's language.
///
/// # Errors
///
/// The compiler's log.
pub(crate) fn compile(text: &str) -> Result<Vec<u8>, String> {
    let text = CString::new(text).unwrap();
    let mut program = null_mut();
    // SAFETY: all pointers outlive their calls, and the sizes are asked for first.
    unsafe {
        let (none, options) = (null_mut(), [c"--gpu-architecture=sm_89".as_ptr()]);
        let made =
            nvrtc::nvrtcCreateProgram(&mut program, text.as_ptr(), none, 0, null_mut(), null_mut());
        assert_eq!(made, nvrtc::SUCCESS);
        let compiled = if is_amds() {
            hip::hiprtcCompileProgram(program, 0, null_mut())
        } else {
            nvrtc::nvrtcCompileProgram(program, 1, options.as_ptr())
        };
        let mut size = 0;
        let answer = if compiled == nvrtc::SUCCESS {
            nvrtc::nvrtcGetPTXSize(program, &mut size);
            let mut image = vec![0u8; size];
            nvrtc::nvrtcGetPTX(program, image.as_mut_ptr().cast());
            Ok(image)
        } else {
            nvrtc::nvrtcGetProgramLogSize(program, &mut size);
            let mut log = vec![0u8; size];
            nvrtc::nvrtcGetProgramLog(program, log.as_mut_ptr().cast());
            Err(CStr::from_ptr(log.as_ptr().cast())
                .to_string_lossy()
                .into_owned())
        };
        nvrtc::nvrtcDestroyProgram(&mut program);
        answer
    }
}

/// A compiled kernel.
pub(crate) struct Kernel(*const Function);

impl Kernel {
    pub(crate) fn new(text: &str, name: &str) -> Kernel {
        let image = compile(text).unwrap();
        let (mut module, mut function): (*mut Module, _) = (null_mut(), std::ptr::null());
        let name = CString::new(name).unwrap();
        // SAFETY: all pointers outlive their calls.
        unsafe {
            let status = cuModuleLoadData(&mut module, image.as_ptr().cast());
            assert_eq!(status, driver::SUCCESS);
            let status = cuModuleGetFunction(&mut function, module, name.as_ptr());
            assert_eq!(status, driver::SUCCESS);
        }
        Kernel(function)
    }

    /// Launches the kernel on buffers, and returns the status of the launch and of the wait for it.
    pub(crate) fn launch(&self, grid: u32, block: u32, shared: u32, buffers: &[&Buffer]) -> u32 {
        match self.on(null_mut(), [grid, block, shared], buffers) {
            // SAFETY: it takes nothing.
            driver::SUCCESS => unsafe { driver::device::cuCtxSynchronize() },
            failed => failed,
        }
    }

    /// Submits a launch to a stream.
    pub(crate) fn put(
        &self,
        stream: *mut Stream,
        grid: u32,
        block: u32,
        buffers: &[&Buffer],
    ) -> u32 {
        self.on(stream, [grid, block, 0], buffers)
    }

    fn on(&self, stream: *mut Stream, [grid, block, shared]: [u32; 3], buffers: &[&Buffer]) -> u32 {
        let addresses: Vec<u64> = buffers.iter().map(|buffer| buffer.address).collect();
        let argument = |address: &u64| std::ptr::from_ref(address).cast();
        let arguments: Vec<*const c_void> = addresses.iter().map(argument).collect();
        let (function, none) = (self.0, std::ptr::null());
        // SAFETY: the kernels of these tests take as many pointers as they are given.
        unsafe {
            cuLaunchKernel(
                function,
                grid,
                1,
                1,
                block,
                1,
                1,
                shared,
                stream,
                arguments.as_ptr(),
                none,
            )
        }
    }
}

/// Launches the kernel `k` of a text, and asserts that it succeeds.
pub(crate) fn launch(text: &str, grid: u32, block: u32, shared: u32, buffers: &[&Buffer]) {
    let status = Kernel::new(text, "k").launch(grid, block, shared, buffers);
    assert_eq!(status, driver::SUCCESS);
}

/// The value of the device attribute with this number.
pub(crate) fn attribute(number: c_int) -> c_int {
    let mut value = 0;
    // SAFETY: the value outlives the call.
    let status = unsafe { driver::device::cuDeviceGetAttribute(&mut value, number, 0) };
    assert_eq!(status, driver::SUCCESS);
    value
}
