//! NVIDIA's run-time compiler, loaded as a library: no GPU and no driver is needed to compile.
#![allow(
    unsafe_code,
    reason = "NVRTC is a C library; its five functions are called here and nowhere else"
)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null;
use std::sync::OnceLock;

use libloading::{Library, Symbol};

use crate::tools;

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type LogSize = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Log = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;

fn library() -> Result<&'static Library, String> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    let loaded = LIBRARY.get_or_init(|| {
        let path = tools::cuda_runtime().join("lib/libnvrtc.so.13");
        // SAFETY: NVRTC's initialisers do nothing but set up its own data.
        let library = unsafe { Library::new(&path) };
        library.map_err(|error| {
            let path = path.display();
            format!("{path} did not load ({error}): run scripts/setup, which downloads it")
        })
    });
    loaded.as_ref().map_err(Clone::clone)
}

/// The function `name` of the library.
///
/// # Safety
/// `T` must be the type that nvrtc.h gives it.
unsafe fn function<T>(name: &str) -> Result<Symbol<'static, T>, String> {
    // SAFETY: the caller vouches for the type.
    unsafe { library()?.get(name.as_bytes()) }.map_err(|error| format!("{name}: {error}"))
}

/// Compiles `source` to machine code of `architecture` (90 is sm_90).
///
/// # Errors
/// The compiler's log, or why there is no compiler.
pub(crate) fn compile(source: &str, name: &str, architecture: u32) -> Result<(), String> {
    let include = tools::cuda_runtime().join("include");
    let options = [
        format!("--gpu-architecture=sm_{architecture}"),
        format!("-I{}", include.display()),
    ];
    let text = |text: &str| CString::new(text).map_err(|error| error.to_string());
    let (source, name) = (text(source)?, text(&format!("{name}.cu"))?);
    let options = [text(&options[0])?, text(&options[1])?];
    let options = [options[0].as_ptr(), options[1].as_ptr()];
    // SAFETY: the types are those of nvrtc.h.
    let (create, compile, destroy) = unsafe {
        (
            function::<Create>("nvrtcCreateProgram")?,
            function::<Compile>("nvrtcCompileProgram")?,
            function::<Destroy>("nvrtcDestroyProgram")?,
        )
    };
    let mut program: Program = std::ptr::null_mut();
    // SAFETY: the strings end in NUL and outlive the calls; there are no headers, so null is theirs.
    let created = unsafe {
        create(
            &raw mut program,
            source.as_ptr(),
            name.as_ptr(),
            0,
            null(),
            null(),
        )
    };
    if created != 0 {
        return Err(format!("nvrtcCreateProgram returned {created}"));
    }
    // SAFETY: the program was created, and two options are passed.
    let compiled = unsafe { compile(program, 2, options.as_ptr()) };
    let verdict = if compiled == 0 {
        Ok(())
    } else {
        Err(log(program).unwrap_or_else(|error| error))
    };
    // SAFETY: the program was created, and is not used again.
    unsafe { destroy(&raw mut program) };
    verdict
}

/// What the compiler said about `program`, which was created and is alive.
fn log(program: Program) -> Result<String, String> {
    // SAFETY: the types are those of nvrtc.h.
    let (log_size, log) = unsafe {
        (
            function::<LogSize>("nvrtcGetProgramLogSize")?,
            function::<Log>("nvrtcGetProgramLog")?,
        )
    };
    let mut size = 0;
    // SAFETY: `size` outlives the call.
    unsafe { log_size(program, &raw mut size) };
    let mut text = vec![0u8; size.max(1)];
    // SAFETY: the text has the size that the library asked for.
    unsafe { log(program, text.as_mut_ptr().cast()) };
    Ok(String::from_utf8_lossy(&text)
        .trim_end_matches('\0')
        .to_owned())
}
