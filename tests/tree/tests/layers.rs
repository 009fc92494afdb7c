//! Lower layers never name higher ones: the allowed edges between our crates, and who may use which library.
//!
//! Reads what cargo itself says about the workspace, so an edge through a feature, a target or a rename counts too.
#![allow(clippy::unwrap_used, reason = "a test may panic on a broken workspace")]

use std::collections::BTreeMap;

use serde_json::Value;

/// Each crate of the workspace, and the crates of ours that it may depend on.
const EDGES: &[(&str, &[&str])] = &[
    ("moebius-device", &[]),
    ("moebius-ops", &[]),
    ("moebius-host", &["moebius-ops"]),
    (
        "moebius-shaders",
        &["moebius-ops", "moebius-device", "moebius-profiles"],
    ),
    ("moebius-pjrt", &[]),
    ("moebius-xla", &["moebius-ops", "moebius-pjrt"]),
    (
        "moebius",
        &[
            "moebius-ops",
            "moebius-host",
            "moebius-shaders",
            "moebius-device",
            "moebius-pjrt",
            "moebius-xla",
        ],
    ),
    (
        "moebius-benches",
        &[
            "moebius-ops",
            "moebius",
            "moebius-host",
            "moebius-shaders",
            "moebius-device",
            "moebius-pjrt",
            "moebius-profiles",
            "moebius-xla",
            // Whose forward a bench of launches times.
            "moebius-model",
        ],
    ),
    ("moebius-weights", &["moebius-ops"]),
    (
        "moebius-model",
        &["moebius", "moebius-ops", "moebius-weights"],
    ),
    ("moebius-text", &["moebius-weights"]),
    (
        "moebius-engine",
        &["moebius", "moebius-model", "moebius-ops"],
    ),
    (
        "moebius-cases",
        &["moebius", "moebius-model", "moebius-weights"],
    ),
    (
        "moebius-wasm",
        &[
            "moebius-ops",
            "moebius",
            "moebius-cases",
            "moebius-device",
            "moebius-engine",
            "moebius-model",
            "moebius-shaders",
            "moebius-weights",
        ],
    ),
    ("moebius-words", &["moebius-text", "moebius-weights"]),
    (
        "moebius-cli",
        &[
            "moebius",
            "moebius-benches",
            "moebius-cases",
            "moebius-device",
            "moebius-engine",
            "moebius-host",
            "moebius-model",
            "moebius-ops",
            "moebius-profiles",
            "moebius-shaders",
            "moebius-text",
            "moebius-weights",
        ],
    ),
    (
        "moebius-conformance",
        &[
            "moebius",
            "moebius-device",
            "moebius-model",
            "moebius-ops",
            "moebius-shaders",
            "moebius-tests",
            "moebius-weights",
        ],
    ),
    (
        "moebius-validate",
        &[
            "moebius-device",
            "moebius-emulator",
            "moebius-ops",
            "moebius-shaders",
            "moebius-tests",
        ],
    ),
    (
        "moebius-tests",
        &[
            "moebius-ops",
            "moebius",
            "moebius-benches",
            "moebius-cases",
            "moebius-cli",
            "moebius-device",
            "moebius-emulator",
            "moebius-engine",
            "moebius-model",
            "moebius-pjrt",
            "moebius-profiles",
            "moebius-shaders",
            "moebius-text",
            "moebius-weights",
            "moebius-xla",
        ],
    ),
    ("moebius-tree", &[]),
    ("moebius-runner", &[]),
    ("moebius-emulator", &[]),
    ("moebius-profiles", &["moebius-device"]),
];

/// Families of libraries (the crate itself and `name-*`) that only the listed crates may use.
const LIBRARIES: &[(&str, &[&str])] = &[
    (
        "burn",
        &[
            "moebius",
            "moebius-benches",
            "moebius-cases",
            "moebius-cli",
            "moebius-conformance",
            "moebius-engine",
            "moebius-model",
            "moebius-tests",
            "moebius-wasm",
            "moebius-xla",
        ],
    ),
    (
        "cubecl",
        &[
            "moebius-device",
            "moebius-shaders",
            "moebius",
            "moebius-benches",
            "moebius-conformance",
            "moebius-tests",
            "moebius-validate",
        ],
    ),
    ("wgpu", &["moebius-device"]),
    ("naga", &["moebius-tests", "moebius-validate"]),
    ("tokio", &["moebius-xla"]),
    ("axum", &[]),
    ("tokenizers", &["moebius-text"]),
    ("minijinja", &["moebius-text"]),
];

/// Libraries whose kernels and APIs change between patch releases: pinned exactly.
const PINNED: &[&str] = &["burn", "cubecl"];

fn metadata() -> Value {
    moebius_tree::metadata(&["--no-deps"])
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Package name → names it depends on, of every kind (normal, dev, build).
fn dependencies(metadata: &Value) -> BTreeMap<&str, Vec<&Value>> {
    let packages = list(metadata, "packages").iter();
    packages
        .map(|package| {
            (
                text(package, "name"),
                list(package, "dependencies").iter().collect(),
            )
        })
        .collect()
}

fn in_family(name: &str, family: &str) -> bool {
    name.strip_prefix(family)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn assert_none(rule: &str, offences: &[String]) {
    assert!(
        offences.is_empty(),
        "{rule}\n  {}\nThe tables are at the top of tests/tree/tests/layers.rs; ARCHITECTURE.md explains them.",
        offences.join("\n  ")
    );
}

#[test]
fn every_member_is_in_the_table() {
    let metadata = metadata();
    let members = dependencies(&metadata);
    let mut offences: Vec<String> = members
        .keys()
        .filter(|name| EDGES.iter().all(|(known, _)| known != *name))
        .map(|name| format!("{name} is a member, but no rule says what it may depend on"))
        .collect();
    let gone = EDGES
        .iter()
        .filter(|(known, _)| !members.contains_key(known));
    offences.extend(gone.map(|(known, _)| format!("{known} has a rule, but is no member")));
    assert_none("Every workspace member has a rule:", &offences);
}

#[test]
fn our_crates_depend_downwards_only() {
    let metadata = metadata();
    let members = dependencies(&metadata);
    let mut offences = Vec::new();
    for (name, allowed) in EDGES {
        for dependency in members.get(name).into_iter().flatten() {
            let to = text(dependency, "name");
            if members.contains_key(to) && !allowed.contains(&to) {
                offences.push(format!(
                    "{name} -> {to} (it may use: {})",
                    allowed.join(", ")
                ));
            }
        }
    }
    assert_none(
        "Lower layers never name higher ones; not allowed:",
        &offences,
    );
}

#[test]
fn libraries_stay_where_they_belong() {
    let metadata = metadata();
    let mut offences = Vec::new();
    for (name, dependencies) in dependencies(&metadata) {
        for dependency in dependencies {
            let to = text(dependency, "name");
            for (family, users) in LIBRARIES {
                if in_family(to, family) && !users.contains(&name) {
                    offences.push(format!(
                        "{name} -> {to} ({family} is for: {})",
                        users.join(", ")
                    ));
                }
            }
        }
    }
    assert_none(
        "A library is used in the layer it belongs to; not allowed:",
        &offences,
    );
}

#[test]
fn kernel_libraries_are_pinned_exactly() {
    let metadata = metadata();
    let mut offences = Vec::new();
    for (name, dependencies) in dependencies(&metadata) {
        for dependency in dependencies {
            let (to, requirement) = (text(dependency, "name"), text(dependency, "req"));
            let pinned = PINNED.iter().any(|family| in_family(to, family));
            if pinned && !requirement.starts_with('=') {
                offences.push(format!("{name} -> {to} {requirement}"));
            }
        }
    }
    assert_none(
        "burn and cubecl are pinned exactly (`=x.y.z`); not pinned:",
        &offences,
    );
}

#[test]
fn every_member_takes_the_workspace_lints() {
    let metadata = metadata();
    let offences: Vec<String> = list(&metadata, "packages")
        .iter()
        .filter(|package| {
            let manifest = std::fs::read_to_string(text(package, "manifest_path")).unwrap();
            let lints = manifest.split("\n[lints]\n").nth(1).unwrap_or_default();
            !lints.trim_start().starts_with("workspace = true")
        })
        .map(|package| {
            format!(
                "{} lacks `[lints]` with `workspace = true`",
                text(package, "name")
            )
        })
        .collect();
    assert_none("There is one set of lints, the workspace's:", &offences);
}

/// A plain `cargo run` at the root is the main job, built without LLVM: the only default member is the CLI.
#[test]
fn cargo_run_is_the_main_job() {
    let metadata = metadata();
    let default: Vec<&str> = list(&metadata, "workspace_default_members")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let runnable: Vec<&str> = list(&metadata, "packages")
        .iter()
        .filter(|package| default.contains(&text(package, "id")))
        .flat_map(|package| list(package, "targets"))
        .filter(|target| {
            list(target, "kind")
                .iter()
                .any(|kind| kind.as_str() == Some("bin"))
        })
        .map(|target| text(target, "name"))
        .collect();
    assert_eq!(
        (default.len(), runnable),
        (1, vec!["moebius"]),
        "the root Cargo.toml needs `default-members = [\"runtime/cli\"]`; with more members, cargo run \
         would unite their features and ask for LLVM. Default members: {default:?}"
    );
}
