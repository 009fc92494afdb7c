//! Programs as plugins take them.

use std::thread;

use super::error::Error;
use super::ffi;

/// The stack of a compilation, in bytes: MLIR's parser and XLA call themselves for each level of nesting, and regions nested
/// 128 deep overflow the 2 MiB of Rust's threads. Pages that are not used take no memory.
const STACK: usize = 64 << 20;

/// Calls `compile` with the record of a program in StableHLO text, on a thread with a stack that is large enough for it: a
/// stack that overflows ends the process.
///
/// # Errors
///
/// [`Error::Program`] where no thread can be had; those of `compile`.
pub(super) fn with_program<T: Send>(
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
