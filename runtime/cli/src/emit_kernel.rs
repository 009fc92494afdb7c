//! The one call into the compiler: names in, source out.

use moebius_shaders::emit::{self, Artifact, Target};

use crate::error::CliError;

/// A kernel for a target.
pub(crate) struct Source {
    /// Text, or the bytes of an object.
    pub(crate) bytes: Vec<u8>,
    /// Ending of the file's name, without the dot.
    pub(crate) extension: String,
}

/// Names of every kernel variant.
pub(crate) fn kernels() -> Vec<String> {
    moebius_shaders::kernels()
        .iter()
        .map(|k| k.name.to_string())
        .collect()
}

/// Names of every target.
pub(crate) fn targets() -> Vec<String> {
    Target::ALL.iter().map(ToString::to_string).collect()
}

/// Compiles `kernel` for `target`.
pub(crate) fn emit(kernel: &str, target: &str) -> Result<Source, CliError> {
    let parsed = Target::ALL
        .iter()
        .find(|t| t.to_string() == target)
        .copied();
    let parsed = parsed.ok_or_else(|| unknown("target", target, &targets()))?;
    let kernels = moebius_shaders::kernels();
    let entry = kernels.iter().find(|k| k.name == kernel);
    let entry = entry.ok_or_else(|| unknown("kernel", kernel, &self::kernels()))?;
    let Artifact {
        bytes, extension, ..
    } = emit::emit(entry, parsed)
        .map_err(|e| CliError::Emit(format!("{kernel} for {target}: {e}")))?;
    Ok(Source {
        bytes,
        extension: extension.to_string(),
    })
}

fn unknown(what: &str, got: &str, known: &[String]) -> CliError {
    let hint = Some(format!("known: {}", known.join(", ")));
    CliError::Usage {
        message: format!("unknown {what} `{got}`"),
        hint,
    }
}
