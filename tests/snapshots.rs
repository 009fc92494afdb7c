//! The WGSL of every kernel against the committed text, so that a change of a kernel, a plan or the compiler shows its effect
//! on the code. `tests/snapshots/wgsl/` has one text, for reading, for each variant of each family of kernels.
//! `tests/snapshots/wgsl.tsv` has a line for every kernel: its bindings, its workgroup size and the hash of its text.
//! `MOEBIUS_BLESS=1` rewrites both.
#![allow(clippy::panic, reason = "a test may panic on an unreadable tree")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

use moebius_shaders::emit::{self, EmitError, KernelEntry, Target};
use naga::{AddressSpace, Module};

/// The most lines that texts and list may have together, so that a reviewer can read a change.
const LINES: usize = 23_000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots")
}

/// A kernel that WebGPU runs.
struct Kernel {
    family: &'static str,
    variant: &'static str,
    text: String,
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

/// Every kernel that WebGPU runs, by name.
fn kernels() -> BTreeMap<String, Kernel> {
    let mut kernels = BTreeMap::new();
    let mut errors = Vec::new();
    for entry in moebius_shaders::kernels() {
        let (family, variant) = (entry.family, entry.variant);
        match source(&entry) {
            Ok(Some(text)) => {
                let kernel = Kernel {
                    family,
                    variant,
                    text,
                };
                let before = kernels.insert(entry.name.clone(), kernel);
                assert!(before.is_none(), "two kernels are called {}", entry.name);
            }
            Ok(None) => {}
            Err(error) => errors.push(error),
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    kernels
}

/// The shortest kernel of each variant of each family, by file name.
fn stories(kernels: &BTreeMap<String, Kernel>) -> BTreeMap<String, &str> {
    let mut shortest: BTreeMap<_, (usize, &String)> = BTreeMap::new();
    for (name, kernel) in kernels {
        let this = (kernel.text.lines().count(), name);
        let best = shortest
            .entry((kernel.family, kernel.variant))
            .or_insert(this);
        *best = this.min(*best);
    }
    let file = |(_, name): &(usize, &String)| (format!("wgsl/{name}.wgsl"), &*kernels[*name].text);
    shortest.values().map(file).collect()
}

/// The number of a kernel's bindings, its workgroup's size, and the workgroup's bytes of shared memory.
fn needs(name: &str, text: &str) -> String {
    let module: Module =
        naga::front::wgsl::parse_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let variables = || module.global_variables.iter().map(|(_, variable)| variable);
    let bindings = variables()
        .filter(|variable| variable.binding.is_some())
        .count();
    let bytes: u32 = variables()
        .filter(|variable| matches!(variable.space, AddressSpace::WorkGroup))
        .map(|variable| module.types[variable.ty].inner.size(module.to_ctx()))
        .sum();
    let size = module.entry_points[0].workgroup_size;
    let size = size.map(|length| length.to_string()).join("x");
    format!("{bindings}\t{size}\t{bytes}")
}

/// The list of all kernels, one per line.
fn list(kernels: &BTreeMap<String, Kernel>) -> String {
    let mut list = "kernel\tbindings\tworkgroup\tworkgroup bytes\tlines\tblake3\n".to_owned();
    for (name, Kernel { text, .. }) in kernels {
        let hash = blake3::hash(text.as_bytes()).to_hex();
        let (needs, lines) = (needs(name, text), text.lines().count());
        list += &format!("{name}\t{needs}\t{lines}\t{}\n", &hash[..16]);
    }
    list
}

/// The expected contents of all committed files, by file name.
fn wanted() -> BTreeMap<String, String> {
    let kernels = kernels();
    let texts = stories(&kernels).into_iter();
    let texts = texts.map(|(name, text)| (name, text.to_owned()));
    let list = ("wgsl.tsv".to_owned(), list(&kernels));
    texts.chain([list]).collect()
}

/// The names of the committed texts.
fn committed() -> Vec<String> {
    let Ok(files) = fs::read_dir(folder().join("wgsl")) else {
        return Vec::new();
    };
    let names = files.map(|file| file.unwrap_or_else(|error| panic!("{error}")).file_name());
    let names = names.map(|name| format!("wgsl/{}", name.to_string_lossy()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The first line where two texts differ, with both versions.
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
            return Some(format!("{name}:{number}:\n  - {left}\n  + {right}"));
        }
    }
}

fn bless(wanted: &BTreeMap<String, String>) {
    let failed = |error: std::io::Error| panic!("{}: {error}", folder().display());
    fs::create_dir_all(folder().join("wgsl")).unwrap_or_else(failed);
    for (name, text) in wanted {
        fs::write(folder().join(name), text).unwrap_or_else(failed);
    }
    for orphan in committed() {
        if !wanted.contains_key(&orphan) {
            fs::remove_file(folder().join(orphan)).unwrap_or_else(failed);
        }
    }
}

#[test]
fn wgsl_is_as_committed() {
    let wanted = wanted();
    if env::var_os("MOEBIUS_BLESS").is_some() {
        return bless(&wanted);
    }
    let mut problems = Vec::new();
    for (name, text) in &wanted {
        match fs::read_to_string(folder().join(name)) {
            Ok(old) => problems.extend(first_difference(name, &old, text)),
            Err(_) => problems.push(format!("{name}: missing")),
        }
    }
    let orphans = committed().into_iter();
    let orphans = orphans.filter(|name| !wanted.contains_key(name));
    problems.extend(orphans.map(|name| format!("{name}: no kernel has this story")));
    assert!(
        problems.is_empty(),
        "{}\n\nif this is what you want: MOEBIUS_BLESS=1 cargo test --test snapshots; `moebius emit` writes the text of any kernel",
        problems.join("\n")
    );
    let lines: usize = wanted.values().map(|text| text.lines().count()).sum();
    assert!(
        lines <= LINES,
        "expected at most {LINES} lines, got {lines}"
    );
}

/// Names and order don't depend on a hash map or on earlier compilations.
#[test]
fn compiling_twice_gives_the_same_text() {
    let (first, second) = (kernels(), kernels());
    for (name, kernel) in &first {
        let difference = first_difference(name, &kernel.text, &second[name].text);
        assert!(difference.is_none(), "{}", difference.unwrap_or_default());
    }
}

/// The other targets' code is the same in two compilations, for one kernel of each variant.
#[test]
fn compiling_twice_gives_the_same_bytes() {
    let mut seen = BTreeSet::new();
    let mut entries = moebius_shaders::kernels();
    entries.retain(|entry| seen.insert((entry.family, entry.variant)));
    let differs = |target: Target| {
        entries.iter().find_map(|entry| {
            let [first, second] = [emit::emit(entry, target), emit::emit(entry, target)];
            (first != second).then(|| format!("{} for {target}", entry.name))
        })
    };
    let all = Target::ALL.into_iter();
    let others = all.filter(|target| *target != Target::Wgsl);
    let different: Vec<String> = others.filter_map(differs).collect();
    assert!(different.is_empty(), "{different:?}");
}

#[test]
fn a_difference_is_shown_with_its_line() {
    assert_eq!(first_difference("k", "a\nb\n", "a\nb\n"), None);
    let shown = first_difference("k", "a\nb\n", "a\n").unwrap_or_default();
    assert_eq!(shown, "k:2:\n  - b\n  + (end of file)");
    let shown = first_difference("k", "a", "a\n");
    assert!(shown.is_some(), "a missing newline is a difference");
}
