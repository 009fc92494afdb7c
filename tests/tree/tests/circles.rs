//! The modules of a folder have no circular dependencies, and the seam to Burn is named in one place.
//!
//! A module is a file or a folder; the modules of each folder of each crate are checked together. Names that a folder's
//! `mod.rs` or a crate's root re-exports count as its own.
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use moebius_tree::{assert_none, root};

/// Folders of the crates to check, each with its `src`: all libraries of more than a file, the command, and the crate behind `scripts/test`.
const CRATES: &str = "backends/device backends/host shaders/ops shaders/kernels backends/pjrt backends/xla runtime/core runtime/weights \
    runtime/model runtime/text runtime/engine runtime/grammar runtime/serve runtime/cases runtime/cli benches wasm tests/runner";

/// Rust files in a folder and below, except tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && name != "tests" {
            found.extend(sources(&path));
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The code of a file without comments, up to its tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("\n#[cfg(test)]\n").next().unwrap();
    let lines = code.lines().map(|line| line.split("//").next().unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

/// The names after `prefix` in a text, as in `prefix::name` and `prefix::{name, name::…}`.
fn named<'a>(code: &'a str, prefix: &str) -> Vec<&'a str> {
    let word = |text: &'a str| {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
        text[..end.unwrap_or(text.len())].trim()
    };
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            None => names.push(word(rest)),
            Some(list) => names.extend(items(list).into_iter().map(word)),
        }
    }
    names
}

/// The items of a list in braces.
fn items(list: &str) -> Vec<&str> {
    let (mut depth, mut from, mut found) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                found.push(list[from..at].trim());
                return found;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(list[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// A crate's `src` and all folders of modules in it.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let below = paths
        .filter(|path| path.is_dir())
        .flat_map(|path| folders(&path));
    [folder.to_owned()].into_iter().chain(below).collect()
}

/// The module of a file, by the file's path relative to a folder.
fn module(below: &Path) -> &str {
    let first = below.components().next().unwrap().as_os_str();
    first.to_str().unwrap().trim_end_matches(".rs")
}

/// For each module of a folder, the other modules of the folder that it names.
fn edges(src: &Path, folder: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let of_folder = folder.strip_prefix(src).unwrap().components();
    let from_root: String = of_folder
        .map(|part| format!("{}::", part.as_os_str().to_str().unwrap()))
        .collect();
    let from_root = format!("crate::{from_root}");
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in sources(folder) {
        let below = path.strip_prefix(folder).unwrap();
        let module = module(below);
        if ["lib", "main", "mod"].contains(&module) {
            continue;
        }
        // In a module's own file one `super` leads to the folder, and one more in each folder below.
        let own = path.file_name().unwrap() == "mod.rs";
        let supers = below.components().count() - usize::from(own);
        let code = code(&path);
        let upward = "super::".repeat(supers);
        let names = named(&code, &from_root)
            .into_iter()
            .chain(named(&code, &upward));
        let edges = edges.entry(module.to_owned()).or_default();
        edges.extend(names.map(str::to_owned));
    }
    let modules: BTreeSet<String> = edges.keys().cloned().collect();
    for (module, named) in &mut edges {
        named.retain(|name| name != module && modules.contains(name));
    }
    edges
}

/// A circle of modules, if there is one.
fn circle(edges: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn walk(
        edges: &BTreeMap<String, BTreeSet<String>>,
        path: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> bool {
        let at = path.last().unwrap().clone();
        for next in &edges[&at] {
            if let Some(start) = path.iter().position(|module| module == next) {
                path.drain(..start);
                return true;
            }
            if !done.contains(next) {
                path.push(next.clone());
                if walk(edges, path, done) {
                    return true;
                }
                path.pop();
            }
        }
        done.insert(at);
        false
    }
    let mut done = BTreeSet::new();
    edges.keys().find_map(|module| {
        let mut path = vec![module.clone()];
        (!done.contains(module) && walk(edges, &mut path, &mut done)).then_some(path)
    })
}

#[test]
fn modules_form_no_circles() {
    let mut circles = Vec::new();
    for name in CRATES.split(' ') {
        let src = root().join(name).join("src");
        for folder in folders(&src) {
            let name = folder.strip_prefix(root()).unwrap().display();
            let circle = circle(&edges(&src, &folder));
            circles.extend(circle.map(|circle| format!("{name}: {}", circle.join(" → "))));
        }
    }
    assert_none("Modules that name each other in a circle:", &circles);
}

#[test]
fn a_circle_is_found() {
    let edge = |from: &str, to: &[&str]| {
        let to = to.iter().map(|name| (*name).to_owned()).collect();
        (from.to_owned(), to)
    };
    let edges = BTreeMap::from([
        edge("a", &["b"]),
        edge("b", &["c", "d"]),
        edge("c", &[]),
        edge("d", &["b"]),
    ]);
    assert_eq!(circle(&edges).unwrap(), ["b", "d"]);
    let code = "use crate::{one, two::{x, y}, three};\ncrate::four::f(); $crate::five; super::six";
    assert_eq!(named(code, "crate::"), ["one", "two", "three", "four"]);
    assert_eq!(named(code, "super::"), ["six"]);
}

/// Modules above the seam to Burn call `ops` to compute, and `ops` names none of them.
#[test]
fn only_operations_plan_and_dispatch() {
    let src = root().join("runtime/core/src");
    let above = ["moe", "fp8", "nn", "sparse", "blocks"];
    let mut offences = Vec::new();
    for path in sources(&src) {
        let below = path.strip_prefix(&src).unwrap();
        let module = module(below);
        let code = code(&path);
        let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        let words: BTreeSet<&str> = words.collect();
        let seam = ["Dispatch", "Capability"];
        if above.contains(&module) && seam.iter().any(|word| words.contains(word)) {
            offences.push(format!("{}: names {seam:?}", below.display()));
        }
        let upward = named(&code, "crate::");
        if module == "ops" && upward.iter().any(|name| above.contains(name)) {
            offences.push(format!("{}: names a module above", below.display()));
        }
    }
    assert_none("Only operations plan and dispatch:", &offences);
}
