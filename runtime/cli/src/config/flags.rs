//! Flags as keys: which ones a command has, the words that values become, and whether values suit them.

use std::any::TypeId;
use std::ffi::OsString;
use std::ptr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};
use toml::Value;

/// Table of the settings of all commands, and of `moebius` without one.
pub(super) const COMMON: &str = "common";

/// Commands about the command line itself, which no setting changes.
pub(super) const OUTSIDE: [&str; 3] = ["completions", "config", "man"];

/// The flag that names the file, which therefore is no key in it.
const FILE: &str = "config";

/// A command, and the names that lead to it: none to `moebius` itself.
#[derive(Clone)]
pub(super) struct Place<'a> {
    pub(super) path: Vec<&'a str>,
    command: &'a Command,
}

/// A flag that can be a key.
#[derive(Clone, Copy)]
pub(super) struct Flag<'a> {
    pub(super) name: &'a str,
    pub(super) arg: &'a Arg,
    /// The command that declares the flag.
    owner: &'a Command,
}

/// `moebius` and all its commands that have settings, each before those below it.
pub(super) fn places(root: &Command) -> Vec<Place<'_>> {
    let mut found = vec![Place {
        path: Vec::new(),
        command: root,
    }];
    let mut at = 0;
    while let Some(Place { path, command }) = found.get(at).cloned() {
        for below in command.get_subcommands() {
            let path: Vec<&str> = path.iter().copied().chain([below.get_name()]).collect();
            if !OUTSIDE.contains(&path[0]) {
                found.push(Place {
                    path,
                    command: below,
                });
            }
        }
        at += 1;
    }
    found
}

impl<'a> Place<'a> {
    /// The flags that the command itself declares.
    pub(super) fn flags(&self) -> Vec<Flag<'a>> {
        let owner = self.command;
        let flags = owner.get_arguments().filter_map(|arg| {
            let name = arg.get_long().filter(|name| *name != FILE)?;
            Some(Flag { name, arg, owner })
        });
        flags.collect()
    }
}

/// Name of the table of the command at `path`.
pub(super) fn table_name(path: &[&str]) -> String {
    if path.is_empty() {
        COMMON.to_owned()
    } else {
        path.join(".")
    }
}

/// The flags that every command takes.
fn global(root: &Command) -> impl Iterator<Item = (Place<'_>, Flag<'_>)> {
    let place = Place {
        path: Vec::new(),
        command: root,
    };
    let flags = place.flags().into_iter();
    let flags = flags.filter(|flag| flag.arg.is_global_set());
    flags.map(move |flag| (place.clone(), flag))
}

/// The flags that the table of the command at `path` can have, with the commands that take them: the command's own, those of the
/// commands below, and what every command takes.
pub(super) fn keys<'a>(root: &'a Command, path: &[&str]) -> Vec<(Place<'a>, Flag<'a>)> {
    let below = places(root).into_iter();
    let below = below.filter(|place| place.path.starts_with(path));
    let below = below.flat_map(|place| {
        let flags = place.flags().into_iter();
        flags.map(move |flag| (place.clone(), flag))
    });
    let global = global(root).filter(|_| !path.is_empty());
    below.chain(global).collect()
}

/// The flags that the command at `path` takes.
pub(super) fn taken<'a>(root: &'a Command, path: &[&str]) -> Vec<Flag<'a>> {
    let keys = keys(root, path).into_iter();
    let own = keys.filter(|(place, flag)| place.path == path || flag.arg.is_global_set());
    own.map(|(_, flag)| flag).collect()
}

impl Flag<'_> {
    /// Whether the flag has no value.
    pub(super) fn is_switch(&self) -> bool {
        matches!(self.arg.get_action(), ArgAction::SetTrue)
    }

    /// Whether the flag may be repeated.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.arg.get_action(), ArgAction::Append)
    }

    /// Whether the flag's value is a whole number.
    pub(super) fn is_whole(&self) -> bool {
        let read = self.arg.get_value_parser().type_id();
        read == TypeId::of::<usize>() || read == TypeId::of::<u64>()
    }

    /// Whether the flag's value is a number that may have decimals.
    pub(super) fn is_decimal(&self) -> bool {
        let read = self.arg.get_value_parser().type_id();
        let decimals = [
            TypeId::of::<f32>(),
            TypeId::of::<f64>(),
            TypeId::of::<Duration>(),
        ];
        decimals.iter().any(|of| read == *of)
    }

    /// The words of a command line that give the flag these values.
    pub(super) fn words(&self, values: &[String]) -> Vec<OsString> {
        let name = self.name;
        match values {
            [value] if self.is_switch() && value == "true" => vec![format!("--{name}").into()],
            [value] if self.is_switch() && value == "false" => Vec::new(),
            _ => {
                let words = values.iter();
                words
                    .map(|value| format!("--{name}={value}").into())
                    .collect()
            }
        }
    }

    /// Checks that the flag takes these values; other flags that it needs are no matter.
    pub(super) fn check(&self, values: &[String]) -> Result<(), clap::Error> {
        let owner = self.owner.clone().no_binary_name(true);
        match owner.try_get_matches_from(self.words(values)) {
            Err(error) if error.kind() != ErrorKind::MissingRequiredArgument => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether the two flags can't be given together.
    pub(super) fn conflicts(&self, other: &Flag<'_>) -> bool {
        let named = |of: &Flag<'_>, with: &Flag<'_>| {
            let conflicts = of.owner.get_arg_conflicts_with(of.arg);
            conflicts
                .iter()
                .any(|arg| arg.get_id() == with.arg.get_id())
        };
        ptr::eq(self.owner, other.owner) && (named(self, other) || named(other, self))
    }

    /// The values as TOML.
    pub(super) fn value(&self, values: &[String]) -> Value {
        if self.is_switch() {
            Value::Boolean(values.iter().any(|value| value == "true"))
        } else if self.is_list() {
            Value::Array(values.iter().map(|value| self.scalar(value)).collect())
        } else {
            self.scalar(values.first().map_or("", String::as_str))
        }
    }

    fn scalar(&self, text: &str) -> Value {
        let whole = || text.parse().ok().map(Value::Integer);
        let decimal = || text.parse().ok().map(Value::Float);
        let number = if self.is_whole() {
            whole()
        } else if self.is_decimal() {
            whole().or_else(decimal)
        } else {
            None
        };
        number.unwrap_or_else(|| Value::String(text.to_owned()))
    }
}
