//! Settings in TOML: tables named as commands, with keys named as flags.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use clap::Command;
use toml::{Table, Value};

use super::flags::{COMMON, Place, keys, places, table_name};
use crate::error::{CliError, explain};

/// The settings of a file or of a preset, all of which suit their flags.
pub(super) struct Document {
    /// Name of the file or the preset.
    pub(super) name: String,
    /// Values by table and key, joined by a point.
    values: BTreeMap<String, Vec<String>>,
}

impl Document {
    /// Reads a file.
    ///
    /// # Errors
    /// [`CliError::ReadFile`], and what [`Document::read`] says.
    pub(super) fn open(path: &Path, root: &Command) -> Result<Self, CliError> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path).map_err(CliError::read(&name))?;
        Self::read(name, &text, root)
    }

    /// Reads `text`, whose keys are those of the commands of `root`.
    ///
    /// # Errors
    /// [`CliError::Usage`] for a text that isn't TOML, a table or key that there isn't, and a value that a flag doesn't take.
    pub(super) fn read(name: String, text: &str, root: &Command) -> Result<Self, CliError> {
        let read: Result<Table, toml::de::Error> = text.parse();
        let table = read.map_err(|error| syntax(&name, text, &error))?;
        let mut document = Self {
            name,
            values: BTreeMap::new(),
        };
        let places = places(root);
        let mut tables: Vec<&str> = vec![COMMON];
        tables.extend(places.iter().filter_map(|place| place.path.first()));
        for (key, value) in &table {
            let named = [key.as_str()];
            let path: &[&str] = if key == COMMON { &[] } else { &named };
            match value {
                Value::Table(inner) if tables.contains(&key.as_str()) => {
                    document.take(root, path, inner)?;
                }
                Value::Table(_) => {
                    return Err(document.unknown(key, "the table of a command", key, &tables));
                }
                _ => {
                    let name = &document.name;
                    let message = format!("{key} in {name}: expected a table, got a value");
                    let hint = "values for all commands are in the table [common]";
                    return Err(CliError::usage(message, Some(hint)));
                }
            }
        }
        Ok(document)
    }

    /// Takes the table of the command at `path`.
    fn take(&mut self, root: &Command, path: &[&str], table: &Table) -> Result<(), CliError> {
        let (keys, places) = (keys(root, path), places(root));
        for (key, value) in table {
            let below: Vec<&str> = path.iter().copied().chain([key.as_str()]).collect();
            let is_command = below.len() > 1 && places.iter().any(|place| place.path == below);
            if let (Value::Table(inner), true) = (value, is_command) {
                self.take(root, &below, inner)?;
                continue;
            }
            let full = format!("{}.{key}", table_name(path));
            let named = keys.iter().filter(|(_, flag)| flag.name == key);
            let named: Vec<_> = named.collect();
            if named.is_empty() {
                let below = places.iter().filter(|place| place.path.starts_with(path));
                let below = below.filter_map(|place| place.path.get(path.len()).copied());
                let mut names: Vec<&str> = keys.iter().map(|(_, flag)| flag.name).collect();
                names.extend(below.filter(|_| !path.is_empty()));
                return Err(self.unknown(&full, "the name of a flag", key, &names));
            }
            let values = texts(value).ok_or_else(|| {
                let (name, got) = (&self.name, value.type_str());
                let expected = "expected a value or a list of values";
                CliError::usage(format!("{full} in {name}: {expected}, got {got}"), None)
            })?;
            for (place, flag) in named {
                let checked = flag.check(&values);
                checked.map_err(|error| self.unfit(&full, path, place, &error))?;
            }
            self.values.insert(full, values);
        }
        Ok(())
    }

    /// The error for values that a flag of the command at `place` doesn't take.
    fn unfit(&self, full: &str, path: &[&str], place: &Place<'_>, error: &clap::Error) -> CliError {
        let (message, hint) = explain(error);
        let of = if place.path.is_empty() || place.path == path {
            String::new()
        } else {
            format!(", for `moebius {}`", place.path.join(" "))
        };
        let message = format!("{full} in {}{of}: {message}", self.name);
        CliError::usage(message, hint.as_deref())
    }

    /// The error for a table or key that there isn't.
    fn unknown(&self, full: &str, expected: &str, key: &str, names: &[&str]) -> CliError {
        let alike = |name: &str| strsim::jaro(key, name);
        let nearest = names.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)));
        let nearest = nearest.filter(|name| alike(name) > 0.7);
        let hint = nearest.map_or_else(
            || "`moebius config schema` has all tables and keys".to_owned(),
            |name| format!("did you mean `{name}`?"),
        );
        let message = format!("{full} in {}: expected {expected}, got `{key}`", self.name);
        CliError::usage(message, Some(&hint))
    }

    /// The values of a key, if the table has it.
    pub(super) fn get(&self, table: &str, key: &str) -> Option<&Vec<String>> {
        self.values.get(&format!("{table}.{key}"))
    }
}

fn syntax(name: &str, text: &str, error: &toml::de::Error) -> CliError {
    let start = error.span().map_or(0, |span| span.start);
    let before = text.get(..start).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
    let what = error.message();
    CliError::usage(
        format!("{name}, line {line}, column {column}: {what}"),
        None,
    )
}

/// The texts of a value or of a list of values; `None` for dates and tables.
fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(values) => values.iter().map(text).collect(),
        value => Some(vec![text(value)?]),
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(on) => Some(on.to_string()),
        Value::Array(_) | Value::Datetime(_) | Value::Table(_) => None,
    }
}
