//! The functions of `libnvrtc.so` that CubeCL's CUDA runtime calls, through cudarc.
#![allow(
    clippy::missing_safety_doc,
    reason = "what a caller owes is what NVRTC's reference says of each function"
)]

use std::ffi::{CStr, CString, c_char, c_int};

use crate::compile::{Language, Source};
use crate::driver::device::VERSION;

/// `nvrtcResult`.
pub type Status = u32;

/// The call succeeded.
pub const SUCCESS: Status = 0;
/// An argument is invalid.
pub const INVALID_INPUT: Status = 3;
/// A handle refers to no program.
pub const INVALID_PROGRAM: Status = 4;
/// The text can't be compiled; the log says why.
pub const COMPILATION: Status = 6;

/// An `nvrtcProgram`.
#[derive(Debug)]
pub struct Program {
    text: String,
    image: CString,
    log: CString,
}

impl Program {
    /// Compiles a program's text.
    ///
    /// # Safety
    ///
    /// The program is null or live.
    pub(crate) unsafe fn compile(program: *mut Program, language: Language) -> Result<(), Status> {
        // SAFETY: as the caller promises.
        let program = unsafe { program.as_mut() }.ok_or(INVALID_PROGRAM)?;
        let source = Source {
            language,
            text: program.text.clone(),
        };
        let whole = |text: String| CString::new(text.replace('\0', " ")).unwrap_or_default();
        match source.object() {
            Ok(_) => {
                program.image = whole(source.image());
                Ok(())
            }
            Err(log) => {
                program.log = whole(log);
                Err(COMPILATION)
            }
        }
    }
}

/// The architecture in an option: 890 for `--gpu-architecture=sm_89`, 900 for `sm_90a`.
fn architecture(option: &CStr) -> Option<u32> {
    let (name, value) = option.to_str().ok()?.split_once('=')?;
    let number = value.trim_start_matches(|c: char| !c.is_ascii_digit());
    let number: u32 = number
        .trim_end_matches(|c: char| !c.is_ascii_digit())
        .parse()
        .ok()?;
    (name.contains("arch")).then_some(number * 10)
}

/// Writes the length of a program's text, its NUL included.
unsafe fn size(
    program: *const Program,
    to: *mut usize,
    of: fn(&Program) -> &CString,
) -> Result<(), Status> {
    // SAFETY: the caller's pointers.
    let (program, to) = unsafe { (program.as_ref(), to.as_mut()) };
    let program = program.ok_or(INVALID_PROGRAM)?;
    *to.ok_or(INVALID_INPUT)? = of(program).as_bytes_with_nul().len();
    Ok(())
}

/// Writes a program's text, its NUL included.
unsafe fn text(
    program: *const Program,
    to: *mut c_char,
    of: fn(&Program) -> &CString,
) -> Result<(), Status> {
    // SAFETY: the caller's program.
    let program = unsafe { program.as_ref() }.ok_or(INVALID_PROGRAM)?;
    let bytes = of(program).as_bytes_with_nul();
    // SAFETY: the caller asked for the size and has the room.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), to, bytes.len()) };
    Ok(())
}

functions! {
    fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) {
        if major.is_null() || minor.is_null() {
            return Err(INVALID_INPUT);
        }
        // SAFETY: the caller's pointers.
        unsafe {
            major.write(VERSION / 1000);
            minor.write(VERSION % 1000 / 10);
        }
        Ok(())
    }

    /// Ignores the headers, of which CubeCL passes none.
    fn nvrtcCreateProgram(
        to: *mut *mut Program, text: *const c_char, _name: *const c_char,
        headers: c_int, _contents: *const *const c_char, _names: *const *const c_char,
    ) {
        if to.is_null() || text.is_null() || headers != 0 {
            return Err(INVALID_INPUT);
        }
        // SAFETY: the caller's text.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        let program = Program { text, image: CString::default(), log: CString::default() };
        // SAFETY: the caller's pointer.
        unsafe { to.write(Box::into_raw(Box::new(program))) };
        Ok(())
    }

    /// Reads only the architecture from the options.
    fn nvrtcCompileProgram(program: *mut Program, count: c_int, options: *const *const c_char) {
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: the caller's options.
        let options = (0..count).map(|index| unsafe { CStr::from_ptr(*options.add(index)) });
        let architecture = options.filter_map(architecture).next_back().unwrap_or(520);
        // SAFETY: the caller's program.
        unsafe { Program::compile(program, Language::Cuda(architecture)) }
    }

    fn nvrtcDestroyProgram(program: *mut *mut Program) {
        // SAFETY: the caller's pointer, and its last use of the program.
        unsafe {
            if program.is_null() || (*program).is_null() {
                return Err(INVALID_PROGRAM);
            }
            drop(Box::from_raw(*program));
        }
        Ok(())
    }

    fn nvrtcGetPTXSize(program: *const Program, to: *mut usize) {
        // SAFETY: the caller's pointers.
        unsafe { size(program, to, |program| &program.image) }
    }

    /// Gives the text itself as the PTX.
    fn nvrtcGetPTX(program: *const Program, to: *mut c_char) {
        // SAFETY: the caller's pointers.
        unsafe { text(program, to, |program| &program.image) }
    }

    fn nvrtcGetProgramLogSize(program: *const Program, to: *mut usize) {
        // SAFETY: the caller's pointers.
        unsafe { size(program, to, |program| &program.log) }
    }

    fn nvrtcGetProgramLog(program: *const Program, to: *mut c_char) {
        // SAFETY: the caller's pointers.
        unsafe { text(program, to, |program| &program.log) }
    }
}

renamed! {
    fn nvrtcGetCUBINSize(program: *const Program, to: *mut usize) = nvrtcGetPTXSize(program, to);
    fn nvrtcGetCUBIN(program: *const Program, to: *mut c_char) = nvrtcGetPTX(program, to);
}

/// See `nvrtcGetErrorString`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetErrorString(status: Status) -> *const c_char {
    let text = match status {
        SUCCESS => c"NVRTC_SUCCESS",
        INVALID_INPUT => c"NVRTC_ERROR_INVALID_INPUT",
        INVALID_PROGRAM => c"NVRTC_ERROR_INVALID_PROGRAM",
        COMPILATION => c"NVRTC_ERROR_COMPILATION",
        _ => c"NVRTC_ERROR_INTERNAL_ERROR",
    };
    text.as_ptr()
}
