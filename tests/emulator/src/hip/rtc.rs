//! HIP's compiler at run time. Its statuses are NVRTC's numbers, too.

use std::ffi::{c_char, c_int};

use crate::compile::Language;
use crate::nvrtc::{
    Program, Status, nvrtcCreateProgram, nvrtcDestroyProgram, nvrtcGetErrorString, nvrtcGetPTX,
    nvrtcGetPTXSize, nvrtcGetProgramLog, nvrtcGetProgramLogSize,
};

/// See `hiprtcCreateProgram`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hiprtcCreateProgram(
    to: *mut *mut Program,
    text: *const c_char,
    name: *const c_char,
    headers: c_int,
    contents: *const *const c_char,
    names: *const *const c_char,
) -> Status {
    // SAFETY: the caller's pointers.
    unsafe { nvrtcCreateProgram(to, text, name, headers, contents, names) }
}

/// See `hiprtcCompileProgram`. No option is read: a text is compiled for the card there is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hiprtcCompileProgram(
    program: *mut Program,
    _count: c_int,
    _options: *const *const c_char,
) -> Status {
    // SAFETY: the caller's program.
    unsafe { Program::compile(program, Language::Hip) }
}

/// See `hiprtcDestroyProgram`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hiprtcDestroyProgram(program: *mut *mut Program) -> Status {
    // SAFETY: the caller's pointer.
    unsafe { nvrtcDestroyProgram(program) }
}

/// See `hiprtcGetCodeSize`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hiprtcGetCodeSize(program: *const Program, to: *mut usize) -> Status {
    // SAFETY: the caller's pointers.
    unsafe { nvrtcGetPTXSize(program, to) }
}

/// See `hiprtcGetCode`. What it gives is the text itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hiprtcGetCode(program: *const Program, to: *mut c_char) -> Status {
    // SAFETY: the caller's pointers.
    unsafe { nvrtcGetPTX(program, to) }
}

/// See `hiprtcGetProgramLogSize`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hiprtcGetProgramLogSize(
    program: *const Program,
    to: *mut usize,
) -> Status {
    // SAFETY: the caller's pointers.
    unsafe { nvrtcGetProgramLogSize(program, to) }
}

/// See `hiprtcGetProgramLog`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hiprtcGetProgramLog(program: *const Program, to: *mut c_char) -> Status {
    // SAFETY: the caller's pointers.
    unsafe { nvrtcGetProgramLog(program, to) }
}

/// See `hiprtcGetErrorString`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hiprtcGetErrorString(status: Status) -> *const c_char {
    // SAFETY: it takes a number.
    unsafe { nvrtcGetErrorString(status) }
}
