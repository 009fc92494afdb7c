//! Manifests that are cut off, lie or hold no numbers, and the schema of those that are written.

use std::fs;
use std::path::Path;

use super::{checked, forge, made};
use crate::package::{MANIFEST_FILE, Manifest, PackageError};
use serde_json::{Value, json};

#[test]
fn a_truncated_manifest_is_no_json() {
    let (_place, package) = made();
    let bytes = fs::read(package.folder.join(MANIFEST_FILE)).unwrap();
    // The last byte is a line's end, and the last but one closes the object.
    for length in 0..bytes.len() - 1 {
        let error = Manifest::parse(&package.folder, &bytes[..length]).unwrap_err();
        assert!(
            matches!(error, PackageError::NotJson(_)),
            "{length}: {error}"
        );
    }
    let parsed = Manifest::parse(&package.folder, &bytes).unwrap();
    assert_eq!(parsed, package.manifest);
    let large = vec![b' '; 17 << 20];
    fs::write(package.folder.join(MANIFEST_FILE), large).unwrap();
    let error = checked(&package.folder).unwrap_err();
    assert!(matches!(error, PackageError::Manifest(_)), "{error}");
}

/// Manifests that fit their sums, and say what can't be.
#[test]
fn hostile_manifests_are_refused_by_their_fields() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 16] = [
        ("format", |m| m["format"] = json!("npm")),
        ("version", |m| m["version"] = json!(2)),
        ("files", |m| m["files"] = json!([])),
        ("ascending", |m| {
            let first = m["files"][0].clone();
            m["files"].as_array_mut().unwrap().push(first);
        }),
        ("licences", |m| m["licences"] = json!(["/etc/passwd"])),
        ("64 lower-case", |m| m["files"][0]["sha256"] = json!("00")),
        ("64 lower-case", |m| {
            m["files"][0]["sha256"] = json!("A".repeat(64))
        }),
        ("2^64", |m| {
            for at in 0..2 {
                m["files"][at]["bytes"] = json!(u64::MAX);
            }
        }),
        ("relative path", |m| {
            m["files"][0]["path"] = json!("../LICENSE")
        }),
        ("relative path", |m| {
            m["files"][0]["path"] = json!("/etc/passwd")
        }),
        ("relative path", |m| {
            m["files"][0]["path"] = json!("a/../../b")
        }),
        ("relative path", |m| m["files"][0]["path"] = json!("a//b")),
        ("relative path", |m| m["files"][0]["path"] = json!("..\\b")),
        ("relative path", |m| m["files"][0]["path"] = json!("C:b")),
        ("relative path", |m| m["files"][0]["path"] = json!("a\nb")),
        ("relative path", |m| {
            m["files"][0]["path"] = json!(MANIFEST_FILE)
        }),
    ];
    for (word, change) in cases {
        let (_place, package) = made();
        forge(&package.folder, change);
        let error = checked(&package.folder).unwrap_err();
        assert!(
            matches!(error, PackageError::Manifest(_)),
            "{word}: {error}"
        );
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
}

#[test]
fn numbers_that_are_none_are_no_manifest() {
    let (_place, package) = made();
    let text = fs::read_to_string(package.folder.join(MANIFEST_FILE)).unwrap();
    for (old, new) in [
        ("\"bytes\": 2,", "\"bytes\": -2,"),
        ("\"bytes\": 2,", "\"bytes\": 2.5,"),
        ("\"bytes\": 2,", "\"bytes\": 18446744073709551616,"),
        ("\"bytes\": 2,", "\"bytes\": 2, \"bytes\": 2,"),
        ("\"bytes\": 2,", "\"bytes\": 2, \"mode\": 7,"),
        ("\"version\": 1", "\"version\": 4294967297"),
        ("\"load_s\": 0.25", "\"load_s\": 1e999"),
        ("\"load_s\": 0.25", "\"load_s\": NaN"),
    ] {
        assert!(text.contains(old), "{old} in {text}");
        let changed = text.replace(old, new);
        let error = Manifest::parse(&package.folder, changed.as_bytes()).unwrap_err();
        assert!(matches!(error, PackageError::NotJson(_)), "{new}: {error}");
    }
}

/// The properties of an object in the schema: their names, and those that must be there.
fn properties(schema: &Value) -> (Vec<String>, Vec<String>) {
    assert_eq!(schema["additionalProperties"], json!(false), "{schema}");
    let names = schema["properties"].as_object().unwrap().keys().cloned();
    let required = schema["required"].as_array().unwrap().iter();
    let required = required.map(|name| name.as_str().unwrap().to_owned());
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    (sorted(names.collect()), sorted(required.collect()))
}

/// The committed schema has exactly the fields that are written, at every level.
#[test]
fn the_schema_describes_what_is_written() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/deploy/package.schema.json");
    let schema: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let (_place, package) = made();
    let written = serde_json::to_value(&package.manifest).unwrap();
    let keys = |value: &Value| {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    let of = &schema["properties"];
    assert_eq!(of["format"]["const"], written["format"]);
    assert_eq!(of["version"]["const"], written["version"]);
    let objects = ["model", "run", "hardware", "figures", "software"];
    let objects = objects.map(|name| (&of[name], &written[name]));
    let file = (&of["files"]["items"], &written["files"][0]);
    for (schema, written) in [(&schema, &written), file].into_iter().chain(objects) {
        let (names, required) = properties(schema);
        assert_eq!(names, keys(written));
        // An `Option` may be left out when a manifest is read.
        let optional = |name: &&String| {
            ["weights", "architecture", "driver", "memory_bytes"].contains(&name.as_str())
        };
        let needed: Vec<String> = names
            .iter()
            .filter(|name| !optional(name))
            .cloned()
            .collect();
        assert_eq!(required, needed);
    }
}
