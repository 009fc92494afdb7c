//! The configuration of the command line. The keys of a file are the long flags of clap's own definitions, and values become flags of the
//! line before clap reads it: a flag is declared once, and what it takes is checked in one place.

mod document;
mod flags;
mod schema;
mod settings;
mod show;

#[cfg(test)]
mod tests;

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use etcetera::BaseStrategy;

use crate::args::Cli;
use crate::error::{CliError, explain};
use flags::{Place, keys, places};
use settings::{Given, Sources, Variables, completed, variable_name};
pub(crate) use show::run;

/// Variable that names the file.
const CONFIG: &str = "MOEBIUS_CONFIG";

/// Variables that `moebius serve` and OpenTelemetry's library read.
const API_KEYS: &str = "MOEBIUS_API_KEYS";
const COLLECTOR: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const COLLECTOR_OF_TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";

/// The file in the working folder.
pub(crate) const HERE: &str = "moebius.toml";

/// The file in the user's folder of configurations.
const OF_USER: &str = "moebius/config.toml";

/// Reads a command line, its first word being the program, with what the environment, the file and the preset set.
///
/// # Errors
/// [`CliError::Line`] for a line that clap can't read or that asks for help, [`CliError::Usage`] or [`CliError::ReadFile`] for what is
/// wrong elsewhere.
pub(crate) fn parse(line: &[OsString]) -> Result<Cli, CliError> {
    parse_with(line, &variable)
}

fn parse_with(line: &[OsString], variables: Variables<'_>) -> Result<Cli, CliError> {
    let full = with_settings(line, variables)?;
    Cli::try_parse_from(&full).map_err(|error| match error.kind() {
        ErrorKind::ArgumentConflict | ErrorKind::MissingRequiredArgument if full != line => {
            let hint =
                "`moebius config show` with the same command tells which flags are set elsewhere";
            CliError::usage(explain(&error).0, Some(hint))
        }
        _ => CliError::Line(error),
    })
}

/// `line` with the flags that are set elsewhere.
fn with_settings(line: &[OsString], variables: Variables<'_>) -> Result<Vec<OsString>, CliError> {
    let Some(given) = Given::read(line).filter(|given| !given.is_outside()) else {
        return Ok(line.to_vec());
    };
    let root = Cli::command();
    let sources = Sources::open(&root, &given, variables)?;
    let settings = sources.settings(&root, &given, line)?;
    Ok(completed(line, &settings))
}

fn variable(name: &str) -> Option<OsString> {
    env::var_os(name)
}

/// Whether `name` is the variable of a flag.
pub(crate) fn is_variable(name: &str) -> bool {
    let root = Cli::command();
    places(&root).iter().any(|Place { path, .. }| {
        let keys = keys(&root, path);
        keys.iter()
            .any(|(_, flag)| variable_name(path, flag.name) == name)
    })
}

/// The file of settings.
struct File {
    path: PathBuf,
    /// Whether the file is read: it is there, or was named and must be there.
    is_read: bool,
}

/// The file that the line names, else the variable, else the one here or the user's; `None` where none is here and the user has no
/// folder.
fn file(named: Option<PathBuf>, variables: Variables<'_>) -> Option<File> {
    let of_variable = || variables(CONFIG).filter(|value| !value.is_empty());
    if let Some(path) = named.or_else(|| of_variable().map(PathBuf::from)) {
        return Some(File {
            path,
            is_read: true,
        });
    }
    let user = etcetera::choose_base_strategy().ok();
    let user = user.map(|folders| folders.config_dir().join(OF_USER));
    let here = Some(PathBuf::from(HERE)).filter(|path| path.is_file());
    let path = here.or(user)?;
    let is_read = path.is_file();
    Some(File { path, is_read })
}
