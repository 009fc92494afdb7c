//! Compiles CUDA C++ with NVRTC, NVIDIA's run-time compiler, loaded as a library; neither a GPU nor a driver is needed. Checks
//! PTX with ptxas.
#![allow(
    unsafe_code,
    reason = "NVRTC is a C library; its five functions are called here and nowhere else"
)]

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::ptr::null;
use std::sync::OnceLock;

use libloading::{Library, Symbol};
use moebius_shaders::emit::{Artifact, KernelEntry};
use moebius_tests::availability::converts_by_instructions;

use crate::{Verdict, tools};

/// The architectures of Ampere, Ada and Hopper.
const ARCHITECTURES: [u32; 3] = [80, 89, 90];

/// The first architecture with what a kernel needs, and the last without it; all in the deep tier.
fn architectures(needed: u32) -> Vec<u32> {
    if std::env::var_os("MOEBIUS_TEST_DEEP").is_some() {
        return ARCHITECTURES.into();
    }
    let takes = ARCHITECTURES.into_iter().find(|one| *one >= needed);
    let refuses = ARCHITECTURES.into_iter().rfind(|one| *one < needed);
    takes.into_iter().chain(refuses).collect()
}

pub(crate) fn compile(entry: &KernelEntry, artifact: &Artifact) -> Verdict {
    let source = String::from_utf8_lossy(&artifact.bytes);
    for architecture in architectures(entry.sm) {
        let (version, name) = (tools::cuda_version(), &entry.name);
        let tool = format!("nvrtc {version} sm_{architecture} {name}");
        let ask = || compile_for(&source, name, architecture);
        let compiled = tools::verdict(&tool, &artifact.bytes, ask);
        match (compiled, architecture >= entry.sm) {
            (Ok(()), true) | (Err(_), false) => {}
            // Without the instructions, NVIDIA's header converts in software.
            (Ok(()), false) if converts_by_instructions(entry.variant) => {}
            (Err(log), true) => return Err(format!("sm_{architecture}: {log}")),
            (Ok(()), false) => {
                let needed = entry.sm;
                return Err(format!(
                    "for sm_{needed} only, but sm_{architecture} takes it"
                ));
            }
        }
    }
    Ok(())
}

pub(crate) fn assemble(entry: &KernelEntry, artifact: &Artifact) -> Verdict {
    let text = String::from_utf8_lossy(&artifact.bytes);
    let wanted = format!(".visible .entry {}(", entry.name);
    if !text.contains(&wanted) {
        return Err(format!("no `{wanted}` in:\n{text}"));
    }
    let tool = format!("ptxas {} sm_90a", tools::cuda_version());
    tools::verdict(&tool, &artifact.bytes, || {
        let file = tools::file(&artifact.bytes, ".ptx")?;
        let arguments = ["-arch", "sm_90a", "-o", "/dev/null"].map(OsStr::new);
        let ptxas = tools::cuda_nvcc().join("bin/ptxas");
        let arguments = [&arguments[..], &[file.path().as_os_str()]].concat();
        tools::run(&ptxas, &arguments)
    })
}

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

/// The library's function `name`.
///
/// # Safety
/// `T` must be the type in nvrtc.h.
unsafe fn function<T>(name: &str) -> Result<Symbol<'static, T>, String> {
    // SAFETY: the caller vouches for the type.
    unsafe { library()?.get(name.as_bytes()) }.map_err(|error| format!("{name}: {error}"))
}

/// Compiles `source` to machine code for `architecture` (90 is sm_90).
///
/// # Errors
/// The compiler's log, or why there is no compiler.
fn compile_for(source: &str, name: &str, architecture: u32) -> Verdict {
    let include = tools::cuda_runtime().join("include");
    // As CubeCL asks: with the instructions that only this architecture has.
    let own = if architecture >= 90 { "a" } else { "" };
    let options = [
        format!("--gpu-architecture=sm_{architecture}{own}"),
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

/// The compiler's log for `program`, which was created and not yet destroyed.
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
