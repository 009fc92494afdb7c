//! `moebius config`: settings in effect, the schema of the file, and where it is.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum};
use serde_json::{Map, Value, json};

use super::flags::{places, table_name};
use super::settings::{Given, Sources, completed};
use super::{File, file, schema, variable};
use crate::args::{Cli, ConfigArgs, ConfigCommand};
use crate::error::{CliError, explain};
use crate::screen::{Outcome, Screen};

/// Runs `moebius config`.
pub(crate) fn run(cli: &Cli, args: &ConfigArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    match &args.what {
        ConfigCommand::Show(show) => print(cli, &show.line, screen)?,
        ConfigCommand::Schema => {
            let schema = schema::of(&Cli::command());
            screen.line(&serde_json::to_string_pretty(&schema)?)?;
            screen.object(&schema)?;
        }
        ConfigCommand::Path => {
            let File { path, is_read } = file(cli.config.clone(), &variable).ok_or_else(|| {
                CliError::usage(
                    "expected a home folder, got none",
                    Some("--config FILE names a file"),
                )
            })?;
            let shown = path.display().to_string();
            screen.line(&shown)?;
            if !is_read {
                screen.note("the file is not there");
            }
            screen.object(&json!({ "path": shown, "read": is_read }))?;
        }
    }
    Ok(Outcome::Good)
}

/// Shows the settings of `line`, a command line without the program, or of every command.
fn print(cli: &Cli, line: &[OsString], screen: &mut Screen) -> Result<(), CliError> {
    let mut lines = vec![line.to_vec()];
    if line.is_empty() {
        let root = Cli::command();
        let places = places(&root).into_iter();
        lines = places
            .map(|place| place.path.iter().map(OsString::from).collect())
            .collect();
    }
    let mut tables = Map::new();
    for line in &lines {
        tables.extend([table(cli, line, screen)?]);
    }
    screen.object(&tables)
}

/// Shows the table of a command line and returns its name and its settings.
fn table(cli: &Cli, words: &[OsString], screen: &mut Screen) -> Result<(String, Value), CliError> {
    let root = Cli::command();
    let line = whole(cli, words);
    let given = Given::read(&line).filter(|given| !given.is_outside());
    let given = given.ok_or_else(|| {
        let message = "expected a command that has settings, or none";
        CliError::usage(message, Some("`moebius --help` lists the commands"))
    })?;
    let sources = Sources::open(&root, &given, &variable)?;
    let settings = sources.settings(&root, &given, &line)?;
    // What a command can't run without may be missing here.
    if let Err(error) = Cli::try_parse_from(completed(&line, &settings))
        && !matches!(
            error.kind(),
            ErrorKind::MissingRequiredArgument
                | ErrorKind::MissingSubcommand
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        )
    {
        let (message, hint) = explain(&error);
        return Err(CliError::usage(message, hint.as_deref()));
    }
    let name = table_name(&given.path());
    screen.line(&format!("[{name}]"))?;
    let mut shown = Map::new();
    for setting in settings {
        let (flag, from) = (setting.flag, setting.from);
        let value = flag.value(&setting.values);
        screen.line(&format!("{} = {value}  # {from}", flag.name))?;
        shown.insert(
            flag.name.to_owned(),
            json!({ "value": value, "from": from }),
        );
    }
    screen.line("")?;
    Ok((name, Value::Object(shown)))
}

/// The command line of `words` with the program and the flags that `moebius config` was given.
fn whole(cli: &Cli, words: &[OsString]) -> Vec<OsString> {
    let mut line = vec![OsString::from("moebius")];
    if let Some(file) = &cli.config {
        line.extend([OsString::from("--config"), file.into()]);
    }
    let preset = cli.preset.and_then(|preset| preset.to_possible_value());
    line.extend(preset.map(|preset| OsString::from(format!("--preset={}", preset.get_name()))));
    line.extend_from_slice(words);
    line
}
