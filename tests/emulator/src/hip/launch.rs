//! Modules and launches.

use std::ffi::{c_char, c_uint, c_void};
use std::sync::atomic::Ordering;

use crate::driver::launch::cuLaunchKernel;
use crate::driver::module::{Function, Module, cuModuleGetFunction, cuModuleLoadData};
use crate::driver::stream::Stream;
use crate::driver::{INVALID_VALUE, SUCCESS, Status};
use crate::settings;

/// See `hipModuleLoadData`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleLoadData(to: *mut *mut Module, image: *const c_void) -> Status {
    // SAFETY: the caller's pointers.
    unsafe { cuModuleLoadData(to, image) }
}

/// See `hipModuleGetFunction`. A block may use all the shared memory there is without saying so first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleGetFunction(
    to: *mut *const Function,
    module: *mut Module,
    name: *const c_char,
) -> Status {
    // SAFETY: the caller's pointers; a function that was found is never freed.
    unsafe {
        let status = cuModuleGetFunction(to, module, name);
        if status == SUCCESS {
            let most = settings::get().card.shared_bytes_of_block;
            (**to).most_shared.store(most, Ordering::Relaxed);
        }
        status
    }
}

/// See `hipModuleLaunchKernel`. Threads are counted along each side of the grid, in 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleLaunchKernel(
    function: *const Function,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: *mut Stream,
    parameters: *const *const c_void,
    extra: *const *const c_void,
) -> Status {
    let sides = [(grid_x, block_x), (grid_y, block_y), (grid_z, block_z)];
    if sides
        .iter()
        .any(|(grid, block)| grid.checked_mul(*block).is_none())
    {
        return INVALID_VALUE;
    }
    // SAFETY: the caller's function, parameters and stream.
    unsafe {
        cuLaunchKernel(
            function,
            grid_x,
            grid_y,
            grid_z,
            block_x,
            block_y,
            block_z,
            shared_bytes,
            stream,
            parameters,
            extra,
        )
    }
}
