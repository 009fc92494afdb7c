//! What the flags of a command line are set to, by the line itself, the environment, a file, a preset or by default.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Command, CommandFactory, ValueEnum};

use super::document::Document;
use super::flags::{Flag, OUTSIDE, table_name, taken};
use crate::args::{Cli, Preset};
use crate::error::{CliError, explain};

/// Variables of other names that say what a flag says; a file and a preset come after them.
const STAND_INS: [(&str, &str); 3] = [
    ("keys", super::API_KEYS),
    ("otlp-endpoint", super::COLLECTOR),
    ("otlp-endpoint", super::COLLECTOR_OF_TRACES),
];

/// Function that reads a variable of the environment.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Where a value is from, the first taking precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Line,
    Environment,
    File,
    Preset,
    Default,
}

/// A flag's values.
pub(super) struct Setting<'a> {
    pub(super) flag: Flag<'a>,
    pub(super) values: Vec<String>,
    pub(super) rank: Rank,
    /// Name of what the values are from.
    pub(super) from: String,
}

impl Setting<'_> {
    /// The words of a command line that have the same effect: none for a switch that is off.
    pub(super) fn words(&self) -> Vec<OsString> {
        self.flag.words(&self.values)
    }
}

/// What a command line says by itself.
pub(super) struct Given {
    path: Vec<String>,
    matches: ArgMatches,
}

impl Given {
    /// Reads a line up to its first mistake; `None` if it asks for help or the version. Flags without a value may have one here:
    /// `--json=false`.
    pub(super) fn read(line: &[OsString]) -> Option<Self> {
        let command = optional_values(Cli::command()).ignore_errors(true);
        let mut matches = command.try_get_matches_from(line).ok()?;
        let mut path = Vec::new();
        while let Some((name, below)) = matches.remove_subcommand() {
            path.push(name);
            matches = below;
        }
        Some(Self { path, matches })
    }

    /// The names that lead to the command.
    pub(super) fn path(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    /// Whether settings change nothing of the command.
    pub(super) fn is_outside(&self) -> bool {
        let first = self.path.first();
        first.is_some_and(|name| OUTSIDE.contains(&name.as_str()))
    }

    /// The values that the line gives a flag.
    fn values(&self, flag: &Flag<'_>) -> Option<Vec<String>> {
        let id = flag.arg.get_id().as_str();
        if self.matches.value_source(id) != Some(ValueSource::CommandLine) {
            None
        } else if flag.is_switch() {
            Some(vec![self.matches.get_flag(id).to_string()])
        } else {
            let values = self.matches.get_raw(id)?;
            Some(
                values
                    .map(|value| value.to_string_lossy().into_owned())
                    .collect(),
            )
        }
    }
}

fn optional_values(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
        if is_switch {
            arg.num_args(0..=1).require_equals(true)
        } else {
            arg
        }
    });
    command.mut_subcommands(optional_values)
}

/// Where values come from beside the line.
pub(super) struct Sources<'a> {
    variables: Variables<'a>,
    documents: Vec<(Rank, Document)>,
}

impl<'a> Sources<'a> {
    /// The environment, the file, and the preset that the line or one of these names.
    ///
    /// # Errors
    /// [`CliError::ReadFile`], and [`CliError::Usage`] for what the file, or the preset's name, has wrong.
    pub(super) fn open(
        root: &Command,
        given: &Given,
        variables: Variables<'a>,
    ) -> Result<Self, CliError> {
        let mut sources = Self {
            variables,
            documents: Vec::new(),
        };
        let named = given.matches.get_one::<PathBuf>("config").cloned();
        if let Some(file) = super::file(named, variables).filter(|file| file.is_read) {
            let document = Document::open(&file.path, root)?;
            sources.documents.push((Rank::File, document));
        }
        let path = given.path();
        let flags = taken(root, &path).into_iter();
        for flag in flags.filter(|flag| flag.name == "preset") {
            let values = match given.values(&flag) {
                Some(values) => Some(values),
                None => sources.find(&path, flag)?.map(|setting| setting.values),
            };
            let named = values.and_then(|values| Preset::from_str(values.first()?, false).ok());
            if let Some((preset, value)) =
                named.and_then(|preset| Some((preset, preset.to_possible_value()?)))
            {
                let name = format!("preset {}", value.get_name());
                let document = Document::read(name, preset.settings(), root)?;
                sources.documents.push((Rank::Preset, document));
            }
        }
        Ok(sources)
    }

    /// What a flag of the command at `path` is set to: by the variable or the table of the command itself, else of a command above.
    fn find<'f>(&self, path: &[&str], flag: Flag<'f>) -> Result<Option<Setting<'f>>, CliError> {
        let tables = || (0..=path.len()).rev().map(move |length| &path[..length]);
        for table in tables() {
            let name = variable_name(table, flag.name);
            let Some(value) = (self.variables)(&name).filter(|value| !value.is_empty()) else {
                continue;
            };
            let refuse = |message: &str| CliError::usage(format!("{name}: {message}"), None);
            let text = value.into_string();
            let text = text.map_err(|_| refuse("expected UTF-8, got other bytes"))?;
            let values: Vec<String> = if flag.is_list() {
                text.split(',').map(str::to_owned).collect()
            } else {
                vec![text]
            };
            let checked = flag.check(&values);
            checked.map_err(|error| refuse(&explain(&error).0))?;
            return Ok(Some(Setting {
                flag,
                values,
                rank: Rank::Environment,
                from: name,
            }));
        }
        let stands_in = |(key, variable): &(&str, &str)| {
            let value = (self.variables)(variable);
            *key == flag.name && value.is_some_and(|value| !value.is_empty())
        };
        if STAND_INS.iter().any(stands_in) {
            return Ok(None);
        }
        for (rank, document) in &self.documents {
            for table in tables().map(table_name) {
                if let Some(values) = document.get(&table, flag.name) {
                    return Ok(Some(Setting {
                        flag,
                        values: values.clone(),
                        rank: *rank,
                        from: format!("{table} of {}", document.name),
                    }));
                }
            }
        }
        Ok(None)
    }

    /// What the flags of the line are set to, those with precedence first. A value that conflicts with one of precedence is left out, and
    /// so is one that needs what is left out.
    ///
    /// # Errors
    /// [`CliError::Usage`] for a variable whose value its flag doesn't take.
    pub(super) fn settings<'r>(
        &self,
        root: &'r Command,
        given: &Given,
        line: &[OsString],
    ) -> Result<Vec<Setting<'r>>, CliError> {
        let path = given.path();
        let mut settings = Vec::new();
        for flag in taken(root, &path) {
            let setting = match given.values(&flag) {
                Some(values) => Some(Setting {
                    flag,
                    values,
                    rank: Rank::Line,
                    from: "the command line".to_owned(),
                }),
                None => self.find(&path, flag)?,
            };
            settings.extend(setting.or_else(|| default(flag)));
        }
        settings.sort_by_key(|setting| setting.rank);
        Ok(without_conflicts(settings, line))
    }
}

/// Name of the variable for a flag of the command at `path`.
pub(super) fn variable_name(path: &[&str], flag: &str) -> String {
    let parts = path.iter().copied().chain([flag]);
    let name: Vec<String> = parts
        .map(|part| part.replace('-', "_").to_uppercase())
        .collect();
    format!("MOEBIUS_{}", name.join("_"))
}

/// The default of a flag, if clap knows it.
fn default(flag: Flag<'_>) -> Option<Setting<'_>> {
    let values = flag.arg.get_default_values().iter();
    let values = values.flat_map(|value| {
        let value = value.to_string_lossy().into_owned();
        let parts = flag.arg.get_value_delimiter();
        let parts = parts.map(|by| value.split(by).map(str::to_owned).collect());
        parts.unwrap_or_else(|| vec![value])
    });
    let mut values: Vec<String> = values.collect();
    if flag.is_switch() {
        values = vec![false.to_string()];
    }
    let setting = Setting {
        flag,
        values,
        rank: Rank::Default,
        from: "default".to_owned(),
    };
    (!setting.values.is_empty()).then_some(setting)
}

/// Leaves out what conflicts with a setting of precedence, and what needs a flag that is left out.
fn without_conflicts<'a>(settings: Vec<Setting<'a>>, line: &[OsString]) -> Vec<Setting<'a>> {
    let (mut kept, mut dropped) = (Vec::<Setting<'a>>::new(), Vec::new());
    for setting in settings {
        let against = |other: &Setting<'_>| {
            let before = other.rank < setting.rank && !other.words().is_empty();
            before && other.flag.conflicts(&setting.flag)
        };
        if setting.words().is_empty() || !kept.iter().any(against) {
            kept.push(setting);
        } else if setting.rank != Rank::Default {
            dropped.push(format!("--{}", setting.flag.name));
        }
    }
    if !dropped.is_empty() {
        let always = missing(line);
        kept.retain(|setting| {
            let more = missing(&[line, setting.words().as_slice()].concat());
            let mut more = more.iter().filter(|name| !always.contains(name));
            setting.rank == Rank::Line || !more.any(|name| dropped.contains(name))
        });
    }
    kept
}

/// The flags that clap finds missing in a line.
fn missing(line: &[OsString]) -> Vec<String> {
    let Err(error) = Cli::command().try_get_matches_from(line) else {
        return Vec::new();
    };
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(flags))) => {
            let names = flags.iter().filter_map(|flag| flag.split(' ').next());
            names.map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// `line` with the words of the settings that are made elsewhere, in front of `--`. A switch that it gives a value becomes clap's own.
pub(super) fn completed(line: &[OsString], settings: &[Setting<'_>]) -> Vec<OsString> {
    let end = line.iter().position(|word| word == "--");
    let (own, rest) = line.split_at(end.unwrap_or(line.len()));
    let switches = settings.iter().filter(|setting| setting.flag.is_switch());
    let switches: Vec<_> = switches
        .filter(|setting| setting.rank == Rank::Line)
        .collect();
    let own = own.iter().flat_map(|word| {
        let valued = |setting: &&&Setting<'_>| {
            let name = setting.flag.name;
            setting
                .values
                .iter()
                .any(|value| *word == *format!("--{name}={value}"))
        };
        match switches.iter().find(valued) {
            Some(setting) => setting.words(),
            None => vec![word.clone()],
        }
    });
    let elsewhere = [Rank::Environment, Rank::File, Rank::Preset];
    let added = settings
        .iter()
        .filter(|setting| elsewhere.contains(&setting.rank));
    let added = added.flat_map(Setting::words);
    own.chain(added).chain(rest.iter().cloned()).collect()
}
