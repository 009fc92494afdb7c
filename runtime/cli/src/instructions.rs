//! Which vector instructions the process is held to.

use std::env;

use moebius_host::{Simd, limit_simd};

use crate::error::CliError;

/// Does what `--simd` does, for every command; the option goes before it.
const VARIABLE: &str = "MOEBIUS_SIMD";

/// Holds the process to what was asked for, before anything runs.
pub(crate) fn hold(asked: Option<Simd>) -> Result<(), CliError> {
    let asked = match (asked, env::var(VARIABLE)) {
        (Some(asked), _) => Some(asked),
        (None, Ok(text)) if !text.is_empty() => Some(text.parse()?),
        (None, _) => None,
    };
    Ok(asked.map_or(Ok(()), limit_simd)?)
}
