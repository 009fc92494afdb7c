//! Programs: compiled from text, or loaded from bytes that were kept.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::client::Client;
use crate::compile_options::CompileOptions;
use crate::error::Error;
use crate::ffi;
use crate::loaded_executable::LoadedExecutable;
use crate::serialized;
use crate::types::TensorType;

/// The stack of a compilation, in bytes: MLIR's parser and XLA call themselves for each level of nesting, and regions nested
/// 128 deep overflow the 2 MiB of Rust's threads. Pages that are not used take no memory.
const STACK: usize = 64 << 20;

static COMPILED: AtomicU64 = AtomicU64::new(0);
static LOADED: AtomicU64 = AtomicU64::new(0);

/// Programs that this process got from plugins since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramCounts {
    /// Compiled, for devices of this machine or for a topology.
    pub compiled: u64,
    /// Loaded from bytes, such as those of a [`crate::DiskCache`].
    pub loaded: u64,
}

/// Programs that this process got from plugins so far, those of all devices and threads.
pub fn program_counts() -> ProgramCounts {
    ProgramCounts {
        compiled: COMPILED.load(Ordering::Relaxed),
        loaded: LOADED.load(Ordering::Relaxed),
    }
}

/// Counts a program that a plugin has compiled.
pub(crate) fn count_compiled() {
    COMPILED.fetch_add(1, Ordering::Relaxed);
}

impl Client {
    /// Compiles a program in StableHLO text. `signature` says what its `main` takes on each device, which executions are checked
    /// against: the plugin itself compares sizes in bytes only. Texts are trusted not to nest hundreds of regions or types deep,
    /// which would overflow the plugin's stack and end the process.
    ///
    /// # Errors
    ///
    /// The plugin's, with the line of a mistake in the text; [`Error::Program`] where no thread can be had;
    /// [`Error::UnknownElementType`] where a result has none of ours.
    pub fn compile(
        &self,
        text: &str,
        options: &CompileOptions,
        signature: Vec<TensorType>,
    ) -> Result<LoadedExecutable, Error> {
        let options = options.to_bytes_for(self.plugin().platform());
        with_program(text, |program| {
            let mut compile = ffi::ClientCompile::of(self.object());
            compile.program = program;
            compile.compile_options = options.as_ptr().cast();
            compile.compile_options_size = options.len();
            // SAFETY: the client is alive, and the program and the options live until the call returns. The executable is a
            // new one of this client, which is ours.
            unsafe {
                let compiled = self.plugin().ask(compile)?;
                count_compiled();
                LoadedExecutable::new(self.clone(), compiled.executable, signature)
            }
        })
    }

    /// Loads an executable from the bytes of [`crate::Executable::serialize`].
    ///
    /// Only bytes of ours get to the plugin, which trusts what it is given: they carry a checksum, and the plugin, platform
    /// and, for the CPU, the processor features that they were made with. `signature` is that of the program.
    ///
    /// # Errors
    ///
    /// [`Error::Serialized`] for other bytes, and the plugin's.
    pub fn deserialize(
        &self,
        bytes: &[u8],
        signature: Vec<TensorType>,
    ) -> Result<LoadedExecutable, Error> {
        let identity = serialized::identity(self.plugin(), self.platform_name());
        let payload = serialized::unwrap(bytes, &identity)?;
        let mut load = ffi::ExecutableDeserializeAndLoad::of(self.object());
        load.serialized_executable = payload.as_ptr().cast();
        load.serialized_executable_size = payload.len();
        // SAFETY: the client is alive and the bytes live until the call returns; null options mean those in the bytes. The
        // executable is a new one of this client, which is ours.
        unsafe {
            let loaded = self.plugin().ask(load)?;
            LOADED.fetch_add(1, Ordering::Relaxed);
            LoadedExecutable::new(self.clone(), loaded.loaded_executable, signature)
        }
    }
}

/// Calls `compile` with the record of a program in StableHLO text, on a thread with a stack that is large enough for it: a
/// stack that overflows ends the process.
///
/// # Errors
///
/// [`Error::Program`] where no thread can be had; those of `compile`.
pub(crate) fn with_program<T: Send>(
    text: &str,
    compile: impl FnOnce(&ffi::Program) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    const FORMAT: &str = "mlir";
    let call = || {
        let mut program = ffi::Program::new();
        program.code = text.as_ptr().cast_mut().cast();
        program.code_size = text.len();
        program.format = FORMAT.as_ptr().cast();
        program.format_size = FORMAT.len();
        compile(&program)
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .stack_size(STACK)
            .spawn_scoped(scope, call);
        let thread =
            thread.map_err(|error| Error::Program(format!("no thread to compile on: {error}")))?;
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
