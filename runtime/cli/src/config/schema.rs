//! The JSON schema of the file of settings.

use clap::Command;
use serde_json::{Map, Value, json};

use super::flags::{COMMON, Flag, keys, places};

/// The schema of a file for the commands of `root`.
pub(super) fn of(root: &Command) -> Value {
    let places = places(root);
    let mut tables = Map::from_iter([(COMMON.to_owned(), table(root, &[]))]);
    for place in places.iter().filter(|place| place.path.len() == 1) {
        tables.insert(place.path[0].to_owned(), table(root, &place.path));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of moebius: a table for each command, and common for all",
        "type": "object",
        "additionalProperties": false,
        "properties": tables,
    })
}

/// The schema of the table of the command at `path`.
fn table(root: &Command, path: &[&str]) -> Value {
    let keys = keys(root, path);
    let mut properties = Map::new();
    for (_, flag) in &keys {
        let named = keys.iter().filter(|(_, other)| other.name == flag.name);
        let mut forms: Vec<Value> = named.map(|(_, other)| form(other)).collect();
        forms.dedup();
        let mut schema = match <[Value; 1]>::try_from(forms) {
            Ok([form]) => form,
            // A value is for all commands that have the flag.
            Err(forms) => json!({ "allOf": forms }),
        };
        schema["description"] = json!(flag.arg.get_help().map(ToString::to_string));
        properties.insert(flag.name.to_owned(), schema);
    }
    for place in places(root) {
        if !path.is_empty() && place.path.len() == path.len() + 1 && place.path.starts_with(path) {
            let name = place.path[path.len()].to_owned();
            properties.insert(name, table(root, &place.path));
        }
    }
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

/// The schema of a flag's value.
fn form(flag: &Flag<'_>) -> Value {
    let names = flag.arg.get_possible_values();
    let names: Vec<&str> = names.iter().map(|value| value.get_name()).collect();
    let one = if flag.is_switch() {
        json!({ "type": "boolean" })
    } else if !names.is_empty() {
        json!({ "enum": names })
    } else if flag.is_whole() {
        // Some have units.
        json!({ "type": ["integer", "string"] })
    } else if flag.is_decimal() {
        json!({ "type": ["number", "string"] })
    } else {
        json!({ "type": "string" })
    };
    if flag.is_list() {
        json!({ "type": "array", "items": one })
    } else {
        one
    }
}
