//! Functions that compiled CPU kernels call to convert floats.
//!
//! Where a processor has no instruction to round to bf16 (x86-64 without AVX512-BF16) LLVM calls a function of the
//! compiler's run-time library, and CubeCL's JIT looks for it among the symbols of the process. Executables do not
//! export it, and libgcc has it only from release 13 on, so a small library provides it (`conversions/`).

use std::sync::OnceLock;

/// Whether kernels on CubeCL's CPU runtime can convert to bf16; the first call loads the library if need be.
pub(crate) fn bf16() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    // On AArch64 LLVM rounds without a function call.
    *FOUND.get_or_init(|| cfg!(target_arch = "aarch64") || imp::found())
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[allow(
    unsafe_code,
    reason = "a library is loaded, and nothing in Rust does that safely"
)]
mod imp {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::{AsRawFd, FromRawFd};

    const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/conversions.so"));

    /// Loads the library and says whether the process has the functions. Those of an older libgcc stay in use where it
    /// has them.
    pub(super) fn found() -> bool {
        // If loading fails, the process may still have the functions.
        let _ = load();
        ["__truncsfbf2", "__truncdfbf2"].into_iter().all(has)
    }

    pub(super) fn has(name: &str) -> bool {
        // SAFETY: the address is not used.
        unsafe { Library::this().get::<*const ()>(name.as_bytes()) }.is_ok()
    }

    /// Loads the library from memory: a temporary folder may be missing or forbid execution.
    fn load() -> Result<(), Box<dyn std::error::Error>> {
        // SAFETY: the name is a C string.
        let descriptor = unsafe { libc::memfd_create(c"conversions".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        // SAFETY: the descriptor is new, and nothing else owns it.
        let mut file = unsafe { File::from_raw_fd(descriptor) };
        file.write_all(LIBRARY)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        // SAFETY: the library runs nothing when it is loaded, and its functions do what compilers expect of their names.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }?;
        // Never unload the library: compiled kernels call it until the process ends.
        let _ = library.into_raw();
        Ok(())
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod imp {
    /// Returns `false`: no library is built for this target, and the system's functions are not known.
    pub(super) fn found() -> bool {
        false
    }
}

#[cfg(test)]
#[path = "../conversions/convert.rs"]
mod convert;

#[cfg(test)]
#[path = "conversions_tests.rs"]
mod tests;
