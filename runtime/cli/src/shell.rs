//! `moebius completions` and `moebius man`: what shells and `man` know of the command line.

use std::fs;

use clap::CommandFactory;
use serde_json::json;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::error::CliError;
use crate::screen::{Outcome, Screen};

/// Writes a shell's script to standard output.
pub(crate) fn completions(
    args: &CompletionsArgs,
    screen: &mut Screen,
) -> Result<Outcome, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "moebius", &mut script);
    let script = String::from_utf8_lossy(&script);
    screen.text(&script)?;
    screen.object(&json!({ "shell": args.shell.to_string(), "script": script }))?;
    Ok(Outcome::Good)
}

/// Writes the manual pages of all commands into a folder.
pub(crate) fn man(args: &ManArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let out = args.out.display();
    fs::create_dir_all(&args.out).map_err(CliError::write(&out))?;
    clap_mangen::generate_to(Cli::command(), &args.out).map_err(CliError::write(&out))?;
    screen.line(&format!("`man {out}/moebius.1` shows the first page"))?;
    screen.object(&json!({ "out": args.out }))?;
    Ok(Outcome::Good)
}
