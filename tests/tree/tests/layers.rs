//! Dependencies follow the layers: the permitted edges between our crates, the crates that may use each library, and the
//! licences and sources of all packages in `Cargo.lock`, which users of Moebius take on.
//!
//! The tests read cargo's own metadata of the workspace, so that an edge through a feature, a target or a rename counts, too.
#![allow(clippy::unwrap_used, reason = "a test may panic on a broken workspace")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

/// Each crate of the workspace with the crates of ours that it may depend on; the prefix `moebius-` is left out. `benches` may
/// depend on `model`, because a benchmark of launches times a model's forward.
const EDGES: &str = "
    device:
    ops:
    host: ops
    shaders: ops device profiles
    pjrt:
    xla: ops pjrt
    moebius: ops host shaders device pjrt xla
    benches: ops moebius host shaders device pjrt profiles xla model
    weights: ops
    model: moebius ops weights
    text: weights
    engine: moebius model ops
    grammar: engine text
    serve: moebius engine grammar model text
    cases: moebius model weights
    case-files:
    shipped:
    wasm: ops moebius cases device engine model shaders weights
    words: text weights
    cli: moebius benches case-files cases device engine grammar host model ops profiles serve shaders shipped text weights xla
    conformance: moebius cases device ops shaders tests weights
    validate: device emulator ops shaders tests
    tests: ops moebius benches cases cli device emulator engine model pjrt profiles shaders text weights xla
    tree:
    runner:
    emulator:
    profiles: device
";

/// Families of libraries (a crate and `name-*`), with the only crates that may use each.
const LIBRARIES: &str = "
    burn: moebius benches cases cli conformance engine model tests wasm xla
    cubecl: cli device shaders moebius benches conformance tests validate
    wgpu: device
    naga: tests validate
    tokio: cli serve xla
    axum: serve
    hyper: serve
    utoipa: serve
    prometheus-client: serve
    llguidance: grammar
    tokenizers: text
    minijinja: text
    hf-hub: cli
    ureq: cli serve
    opentelemetry: serve
    tracing: cli engine model moebius serve tests wasm
";

/// Libraries whose kernels and APIs change between patch releases: pinned exactly.
const PINNED: &[&str] = &["burn", "cubecl"];

/// The rows of a table: the name before the colon, and the words after it.
fn rows(table: &'static str) -> Vec<(&'static str, Vec<&'static str>)> {
    let rows = table.lines().filter_map(|row| row.trim().split_once(':'));
    rows.map(|(name, words)| (name, words.split_whitespace().collect()))
        .collect()
}

/// A crate's name as the tables write it, without the prefix.
fn short(name: &str) -> &str {
    name.strip_prefix("moebius-").unwrap_or(name)
}

fn metadata() -> Value {
    moebius_tree::metadata(&["--no-deps"])
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// For each package, its dependencies of every kind (normal, dev, build).
fn dependencies(metadata: &Value) -> BTreeMap<&str, &[Value]> {
    let packages = list(metadata, "packages").iter();
    let named = packages.map(|one| (text(one, "name"), list(one, "dependencies")));
    named.collect()
}

fn in_family(name: &str, family: &str) -> bool {
    let rest = name.strip_prefix(family);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Asserts that `offends` finds nothing in any dependency; it is given the member's name and the dependency.
fn no_dependency(rule: &str, offends: impl Fn(&str, &Value) -> Option<String>) {
    let metadata = metadata();
    let mut offences = Vec::new();
    for (name, dependencies) in dependencies(&metadata) {
        offences.extend(dependencies.iter().filter_map(|to| offends(name, to)));
    }
    assert_none(rule, &offences);
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
    let dependencies = dependencies(&metadata);
    let members: BTreeSet<&str> = dependencies.keys().map(|name| short(name)).collect();
    let known: BTreeSet<&str> = rows(EDGES).into_iter().map(|(name, _)| name).collect();
    assert_eq!(known.len(), rows(EDGES).len(), "a member has two rules");
    let new = members.difference(&known);
    let new = new.map(|name| format!("{name} is a member, but no rule says what it may depend on"));
    let gone = known.difference(&members);
    let gone = gone.map(|name| format!("{name} has a rule, but is no member"));
    let offences: Vec<String> = new.chain(gone).collect();
    assert_none("Every workspace member has a rule:", &offences);
}

#[test]
fn our_crates_depend_downwards_only() {
    let rows: BTreeMap<_, _> = rows(EDGES).into_iter().collect();
    no_dependency(
        "Lower layers never name higher ones; not allowed:",
        |name, dependency| {
            let (allowed, to) = (rows.get(short(name))?, text(dependency, "name"));
            let ours = to == "moebius" || to.starts_with("moebius-");
            (ours && !allowed.contains(&short(to)))
                .then(|| format!("{name} -> {to} (it may use: {})", allowed.join(", ")))
        },
    );
}

#[test]
fn libraries_stay_where_they_belong() {
    let rows = rows(LIBRARIES);
    no_dependency(
        "A library is used in the layer it belongs to; not allowed:",
        |name, dependency| {
            let to = text(dependency, "name");
            let wrong = |(family, users): &&(&str, Vec<&str>)| {
                in_family(to, family) && !users.contains(&short(name))
            };
            let (family, users) = rows.iter().find(wrong)?;
            Some(format!(
                "{name} -> {to} ({family} is for: {})",
                users.join(", ")
            ))
        },
    );
}

#[test]
fn kernel_libraries_are_pinned_exactly() {
    no_dependency(
        "burn and cubecl are pinned exactly (`=x.y.z`); not pinned:",
        |name, dependency| {
            let (to, requirement) = (text(dependency, "name"), text(dependency, "req"));
            let pinned = PINNED.iter().any(|family| in_family(to, family));
            (pinned && !requirement.starts_with('='))
                .then(|| format!("{name} -> {to} {requirement}"))
        },
    );
}

#[test]
fn every_member_takes_the_workspace_lints() {
    let metadata = metadata();
    let lacks = |package: &&Value| {
        let manifest = std::fs::read_to_string(text(package, "manifest_path")).unwrap();
        let lints = manifest.split("\n[lints]\n").nth(1).unwrap_or_default();
        !lints.trim_start().starts_with("workspace = true")
    };
    let packages = list(&metadata, "packages").iter().filter(lacks);
    let offences = packages.map(|package| {
        let name = text(package, "name");
        format!("{name} lacks `[lints]` with `workspace = true`")
    });
    let offences: Vec<String> = offences.collect();
    assert_none("There is one set of lints, the workspace's:", &offences);
}

/// A registry takes a crate only when it has all that the crate needs.
#[test]
fn crates_can_be_published_in_the_order_of_the_list() {
    let plan = moebius_tree::root().join("tests/runner/src/plan.rs");
    let plan = std::fs::read_to_string(plan).unwrap();
    let list = plan.split("const PUBLISHED: &str = \"").nth(1).unwrap();
    let words = list.split('"').next().unwrap().split_whitespace();
    let published: Vec<&str> = words.filter(|word| *word != "\\").collect();
    let metadata = metadata();
    let dependencies = dependencies(&metadata);
    let mut offences = Vec::new();
    for (at, name) in published.iter().enumerate() {
        for dependency in dependencies[name] {
            let to = text(dependency, "name");
            // What tests alone need is left out of packages where no version is asked for.
            let left_out = dependency["kind"] == "dev" && dependency["req"] == "*";
            let ours = dependencies.contains_key(to);
            if ours && !left_out && !published[..at].contains(&to) {
                offences.push(format!("{name} needs {to}, which doesn't come before it"));
            }
        }
    }
    assert_none("PUBLISHED in tests/runner/src/plan.rs:", &offences);
}

/// A library with `test = false` is compiled once, for its users; unit tests in it would never run.
#[test]
fn every_unit_test_is_built() {
    let metadata = metadata();
    let packages = list(&metadata, "packages").iter();
    let is_once = |target: &&Value| {
        let library = |kind: &Value| kind == "lib" || kind == "rlib";
        target["test"] == false && list(target, "kind").iter().any(library)
    };
    let once = packages.flat_map(|package| list(package, "targets"));
    let roots = once.filter(is_once).map(|target| text(target, "src_path"));
    let folders = roots.filter_map(|root| Path::new(root).parent());
    let folders: Vec<&Path> = folders.collect();
    let root = moebius_tree::root();
    let mut paths = moebius_tree::paths();
    paths.retain(|path| {
        let file = root.join(path);
        path.ends_with(".rs") && folders.iter().any(|folder| file.starts_with(folder))
    });
    assert!(!paths.is_empty(), "no library has `test = false`");
    paths.retain(|path| {
        let code = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        code.contains("#[cfg(test)]") || code.contains("#[test]")
    });
    moebius_tree::assert_none("Unit tests that are never built:", &paths);
}

/// A plain `cargo run` at the root runs the main job, built without LLVM: the only default member is the CLI.
#[test]
fn cargo_run_is_the_main_job() {
    let metadata = metadata();
    let default: Vec<&str> = list(&metadata, "workspace_default_members")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let packages = list(&metadata, "packages").iter();
    let packages = packages.filter(|package| default.contains(&text(package, "id")));
    let is_program = |target: &&Value| list(target, "kind").contains(&Value::from("bin"));
    let runnable: Vec<&str> = packages
        .flat_map(|package| list(package, "targets"))
        .filter(is_program)
        .map(|target| text(target, "name"))
        .collect();
    assert_eq!(
        (default.len(), runnable),
        (1, vec!["moebius"]),
        "the root Cargo.toml needs `default-members = [\"runtime/cli\"]`; with more members, cargo run \
         would unite their features and ask for LLVM. Default members: {default:?}"
    );
}

/// Permitted licences: those that require only a notice, and MPL-2.0, which asks for the changes to its own files.
const ALLOWED: &str = "0BSD, Apache-2.0, Apache-2.0 WITH LLVM-exception, BSD-2-Clause, BSD-3-Clause, BSL-1.0, CC0-1.0, \
    CDLA-Permissive-2.0, ISC, MIT, MPL-2.0, NCSA, Unicode-3.0, Unlicense, Zlib";

/// Packages that state their licence by a file, and the licence in it.
const BY_FILE: &[(&str, &str)] = &[("cfg_block", "Apache-2.0")];

/// Whether an SPDX expression permits one of the [`ALLOWED`] licences. `/` is an old way to write OR; packages nest no deeper
/// than (A OR B) AND C.
fn allowed(expression: &str) -> bool {
    let one = |licence: &str| {
        let licence = licence.trim_matches(['(', ')', ' ']);
        ALLOWED.split(", ").any(|allowed| allowed == licence)
    };
    let either = |part: &str| part.replace('/', " OR ").split(" OR ").any(one);
    expression.split(" AND ").all(either)
}

#[test]
fn expressions_are_read() {
    for (expression, good) in [
        ("MIT", true),
        ("MIT/Apache-2.0", true),
        ("GPL-3.0 OR ISC", true),
        ("(MIT OR X) AND NCSA", true),
        ("GPL-3.0", false),
        ("MIT AND GPL-3.0", false),
        ("", false),
        ("LGPL-2.1-or-later", false),
    ] {
        assert_eq!(allowed(expression), good, "{expression}");
    }
}

#[test]
fn every_package_may_be_used() {
    let metadata = moebius_tree::metadata(&[]);
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "{} packages", packages.len());
    let refused = |package: &&Value| {
        let name = package["name"].as_str().unwrap();
        let by_file = BY_FILE.iter().find(|(of, _)| *of == name);
        let licence = package["license"].as_str().or(by_file.map(|(_, l)| *l));
        let source = package["source"].as_str();
        let known =
            source.is_none_or(|source| source.contains("github.com/rust-lang/crates.io-index"));
        !known || !licence.is_some_and(allowed)
    };
    let refused = packages.iter().filter(refused);
    let refused = refused.map(|p| format!("{} {} from {}", p["name"], p["license"], p["source"]));
    let refused: Vec<String> = refused.collect();
    moebius_tree::assert_none("Packages with other licences or from elsewhere:", &refused);
}
