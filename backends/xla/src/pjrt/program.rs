//! Programs as plugins take them.

use std::thread;

use super::error::Error;
use super::ffi;

/// How deep brackets may nest. A parser of MLIR and XLA after it call themselves for each level.
const MAX_NESTING: usize = 256;

/// The stack of a compilation, in bytes. Regions nested 128 deep, as deep as [`MAX_NESTING`] allows, overflow the 2 MiB of
/// Rust's threads; pages that are not used take no memory.
const STACK: usize = 64 << 20;

/// Calls `compile` with the record of a program in StableHLO text, on a thread with a stack that is large enough for it: a
/// stack that overflows ends the process.
///
/// # Errors
///
/// [`Error::Program`] for a text that nests too deep or where no thread can be had; those of `compile`.
pub(super) fn with_program<T: Send>(
    text: &str,
    compile: impl FnOnce(&ffi::Program) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    const FORMAT: &str = "mlir";
    let depth = nesting(text);
    if depth > MAX_NESTING {
        return Err(Error::Program {
            reason: format!("brackets nest {depth} deep, at most {MAX_NESTING} are allowed"),
        });
    }
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
        let thread = thread.map_err(|error| Error::Program {
            reason: format!("no thread to compile on: {error}"),
        })?;
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// How deep the brackets of `text` nest, outside of strings and comments.
fn nesting(text: &str) -> usize {
    let mut bytes = text.bytes().peekable();
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut before = b' ';
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                while let Some(inner) = bytes.next() {
                    match inner {
                        b'"' => break,
                        b'\\' => _ = bytes.next(),
                        _ => {}
                    }
                }
            }
            b'/' if before == b'/' => while bytes.next_if(|&inner| inner != b'\n').is_some() {},
            b'(' | b'[' | b'{' | b'<' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            // An arrow or a comparison closes nothing.
            b'>' if before == b'-' || bytes.peek() == Some(&b'=') => {}
            b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = byte;
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_are_counted_outside_of_strings_and_comments() {
        let depth = |text| nesting(text);
        assert_eq!(depth(""), 0);
        assert_eq!(
            depth("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return }"),
            2
        );
        assert_eq!(depth("(a) -> (b) -> (c) -> (d)"), 1);
        assert_eq!(depth("d0 >= 0, d1 >= 0 (("), 2);
        assert_eq!(depth(r#" "((((\"((((" [ "#), 1);
        assert_eq!(depth("// ((((\n {"), 1);
        assert_eq!(depth(")))) (("), 2);
    }

    #[test]
    fn what_nests_too_deep_is_refused() {
        let refused = with_program(&"tuple<".repeat(300), |_| Ok(()));
        assert!(matches!(refused, Err(Error::Program { .. })));
        assert!(with_program(&"tuple<".repeat(200), |_| Ok(())).is_ok());
    }
}
