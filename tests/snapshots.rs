//! The WGSL of every kernel, compared with `tests/snapshots/wgsl/`, so that a change of a kernel, of a plan or of the
//! compiler shows what it does to the code. `MOEBIUS_BLESS=1` rewrites the files.
#![allow(clippy::panic, reason = "a test may panic on an unreadable tree")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use moebius_shaders::emit::{self, EmitError, KernelEntry, Target};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/wgsl")
}

fn source(entry: &KernelEntry) -> Result<Option<String>, String> {
    match emit::emit(entry, Target::Wgsl) {
        Ok(artifact) => match String::from_utf8(artifact.bytes) {
            Ok(text) => Ok(Some(text)),
            Err(error) => Err(format!("{}: {error}", entry.name)),
        },
        Err(EmitError::NotAvailable { .. }) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// The WGSL of every kernel that WebGPU runs, by name.
fn sources() -> BTreeMap<String, String> {
    let mut sources = BTreeMap::new();
    let mut errors = Vec::new();
    for entry in emit::kernels() {
        match source(&entry) {
            Ok(Some(text)) => {
                let before = sources.insert(entry.name.clone(), text);
                assert!(before.is_none(), "two kernels are called {}", entry.name);
            }
            Ok(None) => {}
            Err(error) => errors.push(error),
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    sources
}

/// Names of the committed files, without their ending.
fn committed() -> Vec<String> {
    let Ok(files) = fs::read_dir(folder()) else {
        return Vec::new();
    };
    let names = files.map(|file| file.unwrap_or_else(|error| panic!("{error}")).file_name());
    let mut names: Vec<String> = names
        .map(|name| name.to_string_lossy().trim_end_matches(".wgsl").to_owned())
        .collect();
    names.sort();
    names
}

/// Where two texts part: the line, and what each has there.
fn first_difference(name: &str, old: &str, new: &str) -> Option<String> {
    if old == new {
        return None;
    }
    let (mut old, mut new) = (old.lines(), new.lines());
    let mut number = 0;
    loop {
        number += 1;
        let (left, right) = (old.next(), new.next());
        if left != right || left.is_none() {
            let shown = |line: Option<&str>| line.unwrap_or("(end of file)").to_owned();
            let (left, right) = (shown(left), shown(right));
            return Some(format!("{name}.wgsl:{number}:\n  - {left}\n  + {right}"));
        }
    }
}

fn bless(sources: &BTreeMap<String, String>) {
    let failed = |error: std::io::Error| panic!("{}: {error}", folder().display());
    fs::create_dir_all(folder()).unwrap_or_else(failed);
    for (name, text) in sources {
        fs::write(folder().join(format!("{name}.wgsl")), text).unwrap_or_else(failed);
    }
    for orphan in committed()
        .iter()
        .filter(|name| !sources.contains_key(*name))
    {
        fs::remove_file(folder().join(format!("{orphan}.wgsl"))).unwrap_or_else(failed);
    }
}

#[test]
fn wgsl_is_as_committed() {
    let sources = sources();
    if env::var_os("MOEBIUS_BLESS").is_some() {
        return bless(&sources);
    }
    let mut problems = Vec::new();
    for (name, text) in &sources {
        let path = folder().join(format!("{name}.wgsl"));
        match fs::read_to_string(&path) {
            Ok(old) => problems.extend(first_difference(name, &old, text)),
            Err(_) => problems.push(format!("{name}.wgsl: missing")),
        }
    }
    let orphans = committed()
        .into_iter()
        .filter(|name| !sources.contains_key(name));
    problems.extend(orphans.map(|name| format!("{name}.wgsl: no kernel has this name")));
    assert!(
        problems.is_empty(),
        "{}\n\nif this is what you want: MOEBIUS_BLESS=1 cargo test --test snapshots",
        problems.join("\n")
    );
}

/// Names of variables, order of declarations: nothing may depend on a hash map or on what was compiled before.
#[test]
fn compiling_twice_gives_the_same_text() {
    let (first, second) = (sources(), sources());
    for (name, text) in &first {
        let difference = first_difference(name, text, &second[name]);
        assert!(difference.is_none(), "{}", difference.unwrap_or_default());
    }
}

#[test]
fn a_difference_is_shown_with_its_line() {
    assert_eq!(first_difference("k", "a\nb\n", "a\nb\n"), None);
    let shown = first_difference("k", "a\nb\n", "a\n").unwrap_or_default();
    assert_eq!(shown, "k.wgsl:2:\n  - b\n  + (end of file)");
    assert!(
        first_difference("k", "a", "a\n").is_some(),
        "a missing newline is a difference"
    );
}
