//! The functions of `libamdhip64.so` and `libhiprtc.so` that CubeCL's HIP runtime calls. HIP is modelled on CUDA: most are
//! functions of `driver` and `nvrtc` by another name, and their statuses have the same numbers.
#![allow(
    clippy::missing_safety_doc,
    reason = "what a caller owes is what HIP's reference says of each function"
)]
#![allow(
    clippy::too_many_arguments,
    reason = "the signatures are those of the HIP runtime API"
)]

pub mod device;

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::Ordering;

use crate::compile::Language;
use crate::driver::launch::put;
use crate::driver::memory::{
    Address, buffers, cuMemAllocHost_v2, cuMemFree_v2, cuMemFreeHost, cuMemGetInfo_v2,
    cuMemcpyDtoDAsync_v2, cuMemcpyDtoHAsync_v2, cuMemcpyHtoDAsync_v2,
};
use crate::driver::module::{Function, Module, cuModuleGetFunction, cuModuleLoadData};
use crate::driver::stream::{
    Event, Graph, Operation, Stream, cuEventCreate, cuEventDestroy_v2, cuEventElapsedTime,
    cuEventRecord, cuEventSynchronize, cuGraphDestroy, cuGraphExecDestroy, cuGraphGetNodes,
    cuGraphInstantiateWithFlags, cuGraphLaunch, cuGraphNodeGetType, cuGraphUpload,
    cuStreamBeginCapture_v2, cuStreamCreate, cuStreamDestroy_v2, cuStreamEndCapture,
    cuStreamSynchronize, cuStreamWaitEvent, submit,
};
use crate::driver::{INVALID_VALUE, SUCCESS, Status, answer, context, unsupported};
use crate::grid::Shape;
use crate::nvrtc::{
    self, Program, nvrtcCreateProgram, nvrtcDestroyProgram, nvrtcGetErrorString, nvrtcGetPTX,
    nvrtcGetPTXSize, nvrtcGetProgramLog, nvrtcGetProgramLogSize,
};
use crate::settings;

renamed! {
    fn hipStreamCreateWithFlags(to: *mut *mut Stream, flags: c_uint) = cuStreamCreate(to, flags);
    fn hipStreamDestroy(stream: *mut Stream) = cuStreamDestroy_v2(stream);
    fn hipStreamSynchronize(stream: *mut Stream) = cuStreamSynchronize(stream);
    fn hipStreamWaitEvent(stream: *mut Stream, event: *mut Event, flags: c_uint) = cuStreamWaitEvent(stream, event, flags);
    fn hipEventCreateWithFlags(to: *mut *mut Event, flags: c_uint) = cuEventCreate(to, flags);
    fn hipEventDestroy(event: *mut Event) = cuEventDestroy_v2(event);
    fn hipEventRecord(event: *mut Event, stream: *mut Stream) = cuEventRecord(event, stream);
    fn hipEventSynchronize(event: *mut Event) = cuEventSynchronize(event);
    fn hipEventElapsedTime(to: *mut f32, start: *mut Event, end: *mut Event) = cuEventElapsedTime(to, start, end);

    fn hipStreamBeginCapture(stream: *mut Stream, mode: c_uint) = cuStreamBeginCapture_v2(stream, mode);
    fn hipStreamEndCapture(stream: *mut Stream, to: *mut *mut Graph) = cuStreamEndCapture(stream, to);
    fn hipGraphGetNodes(graph: *mut Graph, nodes: *mut *const c_void, count: *mut usize) = cuGraphGetNodes(graph, nodes, count);
    fn hipGraphNodeGetType(node: *const c_void, to: *mut c_uint) = cuGraphNodeGetType(node, to);
    /// Reports no failed node, because no node can fail.
    fn hipGraphInstantiate(
        to: *mut *mut Graph, graph: *mut Graph, _node: *mut *const c_void, _log: *mut c_char, _room: usize,
    ) = cuGraphInstantiateWithFlags(to, graph, 0);
    fn hipGraphUpload(graph: *mut Graph, stream: *mut Stream) = cuGraphUpload(graph, stream);
    fn hipGraphLaunch(graph: *mut Graph, stream: *mut Stream) = cuGraphLaunch(graph, stream);
    fn hipGraphDestroy(graph: *mut Graph) = cuGraphDestroy(graph);
    fn hipGraphExecDestroy(graph: *mut Graph) = cuGraphExecDestroy(graph);

    fn hipFree(memory: *mut c_void) = cuMemFree_v2(address(memory));
    /// Ignores the flags: the card reads the host's memory anyway.
    fn hipHostMalloc(to: *mut *mut c_void, bytes: usize, _flags: c_uint) = cuMemAllocHost_v2(to, bytes);
    fn hipFreeHost(memory: *mut c_void) = cuMemFreeHost(memory);
    fn hipMemGetInfo(free: *mut usize, total: *mut usize) = cuMemGetInfo_v2(free, total);
    fn hipMemcpyHtoDAsync(to: *mut c_void, from: *const c_void, bytes: usize, stream: *mut Stream) =
        cuMemcpyHtoDAsync_v2(address(to), from, bytes, stream);
    fn hipMemcpyDtoHAsync(to: *mut c_void, from: *const c_void, bytes: usize, stream: *mut Stream) =
        cuMemcpyDtoHAsync_v2(to, address(from), bytes, stream);
    fn hipMemcpyDtoDAsync(to: *mut c_void, from: *const c_void, bytes: usize, stream: *mut Stream) =
        cuMemcpyDtoDAsync_v2(address(to), address(from), bytes, stream);

    fn hipModuleLoadData(to: *mut *mut Module, image: *const c_void) = cuModuleLoadData(to, image);

    fn hiprtcCreateProgram(
        to: *mut *mut Program, text: *const c_char, name: *const c_char,
        headers: c_int, contents: *const *const c_char, names: *const *const c_char,
    ) = nvrtcCreateProgram(to, text, name, headers, contents, names);
    fn hiprtcDestroyProgram(program: *mut *mut Program) = nvrtcDestroyProgram(program);
    fn hiprtcGetCodeSize(program: *const Program, to: *mut usize) = nvrtcGetPTXSize(program, to);
    /// Gives the text itself as the code.
    fn hiprtcGetCode(program: *const Program, to: *mut c_char) = nvrtcGetPTX(program, to);
    fn hiprtcGetProgramLogSize(program: *const Program, to: *mut usize) = nvrtcGetProgramLogSize(program, to);
    fn hiprtcGetProgramLog(program: *const Program, to: *mut c_char) = nvrtcGetProgramLog(program, to);
}

functions! {
    /// Ignores the options: the text is compiled for the card that is shown.
    fn hiprtcCompileProgram(program: *mut Program, _count: c_int, _options: *const *const c_char) {
        // SAFETY: the caller's program.
        unsafe { Program::compile(program, Language::Hip) }
    }

    /// Does nothing: there are no pools.
    fn hipMemPoolTrimTo(_pool: *mut c_void, _bytes: usize) { Ok(()) }

    /// Accepts 0 bytes, which CUDA refuses.
    fn hipMalloc(to: *mut *mut c_void, bytes: usize) {
        let mut address = 0;
        if bytes > 0 {
            context()?;
            address = buffers().allocate(bytes)?;
        }
        // SAFETY: the caller's pointer; an address is as large as a pointer.
        unsafe { answer(to.cast::<Address>(), address) }
    }

    fn hipMemcpy2DAsync(
        to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize,
        width: usize, height: usize, kind: c_uint, stream: *mut Stream,
    ) {
        // `hipMemcpyKind` counts from 0: host to host, host to device, device to host, device to device. All memory is the host's.
        if kind > 3 {
            return Err(unsupported("hipMemcpy2DAsync of a kind of its own choice"));
        }
        let (to, from) = (address(to), address(from));
        let operation = Operation::Copy { to, from, width, height, to_pitch, from_pitch };
        // SAFETY: the caller's stream and memory.
        unsafe { submit(stream, operation) }
    }

    /// Checks that the threads along each side of the grid fit 32 bits.
    fn hipModuleLaunchKernel(
        function: *const Function,
        grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        shared_bytes: c_uint, stream: *mut Stream, parameters: *const *const c_void, extra: *const *const c_void,
    ) {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        if grid.iter().zip(block).any(|(grid, block)| grid.checked_mul(block).is_none()) {
            return Err(INVALID_VALUE);
        }
        let shape = Shape { grid: grid.into(), block: block.into(), shared_bytes };
        // SAFETY: the caller's function, parameters and stream.
        unsafe { put(function, shape, stream, parameters, extra) }
    }
}

/// See `hiprtcGetErrorString`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hiprtcGetErrorString(status: nvrtc::Status) -> *const c_char {
    // SAFETY: it takes a number.
    unsafe { nvrtcGetErrorString(status) }
}

/// A HIP pointer as an address of the card.
fn address(pointer: *const c_void) -> Address {
    pointer.expose_provenance() as Address
}

/// See `hipModuleGetFunction`. A block may use all shared memory of the card without opting in.
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
