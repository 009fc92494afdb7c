//! What `scripts/release` computes: licences of all parts, a bill of materials, and whether a program is stripped; and what the script
//! refuses before it builds anything.
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]
#![cfg(unix)] // the script needs bash

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use moebius_tree::root;
use serde_json::{Value, json};

const TREE: &str =
    "app v1.0.0 (/source/app)\nlib v2.0.0\nbare v3.0.0\nlib v2.0.0 (*)\n\nold v4.0.0\n";
const LOCK: &str = "[[package]]\nname = \"app\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"lib\"\nversion = \"2.0.0\"\nchecksum = \"ab12\"\n";
const APACHE: &str = "Apache License, all of it\n";
const MIT: &str = "MIT License\n\nCopyright (c) Somebody\n\nPermission is granted\n";

/// An empty folder for the files of a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("release")
        .join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs the script's Python part in `folder`.
fn parts(folder: &Path, words: &[&str]) -> Output {
    Command::new("python3")
        .arg("-B")
        .arg(root().join("scripts/release_parts.py"))
        .args(words)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The text of a licence that a package brings: longer than a path, which is what a lost link leaves.
fn long(of: &str) -> String {
    format!("{of}: {}", "you may use it and pass it on. ".repeat(8))
}

/// Writes what cargo would tell of four packages, of which two bring the same licence, and returns the folder.
fn release(name: &str, licence_of_bare: &str) -> PathBuf {
    let folder = folder(name);
    let package = |name: &str, version: &str, licence: &str| {
        let inner = folder.join(name);
        fs::create_dir(&inner).unwrap();
        json!({
            "id": format!("{name} {version}"),
            "name": name,
            "version": version,
            "license": licence,
            "license_file": null,
            "authors": ["Ada", "Bob"],
            "repository": format!("https://example.org/{name}"),
            "manifest_path": inner.join("Cargo.toml"),
        })
    };
    let packages = [
        package("app", "1.0.0", "MIT OR Apache-2.0"),
        package("lib", "2.0.0", "MIT/Apache-2.0"),
        package("bare", "3.0.0", licence_of_bare),
        package("old", "4.0.0", "MIT"),
        package("unused", "5.0.0", "GPL-3.0"),
    ];
    for name in ["app", "lib"] {
        fs::write(folder.join(name).join("LICENSE-MIT"), long("same")).unwrap();
    }
    fs::write(folder.join("lib/NOTICE.md"), long("notice")).unwrap();
    // Other people's code in a package has a licence of its own, which counts where the code is linked.
    for (inner, file, of) in [
        ("lib/src/c-1.0", "LICENSE", "of the C code"),
        ("lib/LICENSES", "Zlib", "one of several"),
        ("lib/tests", "LICENSE", "not linked"),
        ("lib/src", "license.rs", "a source"),
    ] {
        let inner = folder.join(inner);
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join(file), long(of)).unwrap();
    }
    fs::write(folder.join("old/LICENSE"), "../LICENSE").unwrap();
    let edge = |id: &str, kind: Option<&str>| json!({ "pkg": id, "dep_kinds": [{ "kind": kind, "target": null }] });
    let node = |id: &str, below: &[Value]| json!({ "id": id, "deps": below });
    let linked = ["old 4.0.0", "lib 2.0.0", "unused 5.0.0"].map(|id| edge(id, None));
    let nodes = [
        node("app 1.0.0", &linked),
        node(
            "lib 2.0.0",
            &[edge("bare 3.0.0", None), edge("old 4.0.0", Some("dev"))],
        ),
        node("bare 3.0.0", &[]),
        node("old 4.0.0", &[]),
    ];
    let metadata = json!({ "packages": packages, "resolve": { "nodes": nodes } });
    for (file, text) in [
        ("metadata", metadata.to_string().as_str()),
        ("tree", TREE),
        ("lock", LOCK),
        ("apache", APACHE),
        ("mit", MIT),
    ] {
        fs::write(folder.join(file), text).unwrap();
    }
    folder
}

const LICENCES: [&str; 5] = ["licences", "metadata", "tree", "apache", "mit"];

#[test]
fn licences_are_those_of_all_parts_each_text_once() {
    let folder = release("licences", "Zlib OR Apache-2.0");
    let output = parts(&folder, &LICENCES);
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stdout);
    assert_eq!(said.matches(long("same").trim()).count(), 1, "{said}");
    assert!(said.contains("\napp 1.0.0, lib 2.0.0\n"), "{said}");
    for of in ["notice", "of the C code", "one of several"] {
        assert!(said.contains(long(of).trim()), "{said}");
    }
    assert!(!said.contains("not linked") && !said.contains("a source"));
    assert!(
        said.contains("\nbare 3.0.0 (its package has no text)\n"),
        "{said}"
    );
    assert!(said.contains(APACHE.trim()), "{said}");
    assert!(
        said.contains("Copyright (c) Ada, Bob\n\nPermission"),
        "{said}"
    );
    assert!(
        said.contains("lib 2.0.0: MIT OR Apache-2.0, https://example.org/lib\n"),
        "{said}"
    );
    assert!(
        !said.contains("unused") && !said.contains("../LICENSE"),
        "{said}"
    );
}

#[test]
fn a_part_without_a_known_licence_stops_a_release() {
    for stated in ["Zlib", "MIT AND Unicode-3.0", "MPL-2.0"] {
        let folder = release("unknown", stated);
        let output = parts(&folder, &LICENCES);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = text(&output.stderr);
        assert!(
            said.contains("bare 3.0.0: expected a file with its licence"),
            "{said}"
        );
    }
    // MPL-2.0 names nobody: one package's text is that of all.
    let folder = release("mozilla", "MPL-2.0");
    let mozilla = format!("Mozilla Public License Version 2.0\n{}", long("terms"));
    fs::write(folder.join("unused/LICENSE"), &mozilla).unwrap();
    let path = folder.join("metadata");
    let metadata = fs::read_to_string(&path).unwrap();
    fs::write(&path, metadata.replace("GPL-3.0", "MPL-2.0")).unwrap();
    let output = parts(&folder, &LICENCES);
    assert!(text(&output.stdout).contains(mozilla.trim()), "{output:?}");
}

/// LLVM is linked where its bindings are, and no package holds it.
#[test]
fn the_licence_of_llvm_is_told_where_it_is_linked() {
    let folder = release("llvm", "Apache-2.0");
    for (file, from, to) in [
        ("tree", "bare", "llvm-sys"),
        ("metadata", "\"name\":\"bare\"", "\"name\":\"llvm-sys\""),
        ("metadata", "GPL-3.0", "Apache-2.0 WITH LLVM-exception"),
    ] {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(folder.join(file), text.replace(from, to)).unwrap();
    }
    let output = parts(&folder, &LICENCES);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stderr);
    assert!(
        said.contains("LLVM: expected a package with its licence"),
        "{said}"
    );
    let terms = format!("Apache License\n{}\nLLVM Exceptions", long("terms"));
    fs::write(folder.join("unused/LICENSE"), &terms).unwrap();
    let output = parts(&folder, &LICENCES);
    let said = text(&output.stdout);
    assert!(said.contains("\nLLVM, which llvm-sys links: "), "{said}");
    let block = format!("\nLLVM\n{}\n{terms}", "-".repeat(80));
    assert!(said.contains(&block), "{said}");
}

#[test]
fn the_bill_has_parts_licences_checksums_and_edges() {
    let folder = release("bill", "Apache-2.0");
    let output = parts(&folder, &["bill", "metadata", "tree", "lock"]);
    assert!(output.status.success(), "{output:?}");
    let bill: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(bill["bomFormat"], "CycloneDX");
    assert_eq!(bill["metadata"]["component"]["name"], "app");
    assert_eq!(bill["metadata"]["component"]["type"], "application");
    let names: Vec<&str> = bill["components"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["lib", "bare", "old"]);
    let lib = &bill["components"][0];
    assert_eq!(lib["purl"], "pkg:cargo/lib@2.0.0");
    assert_eq!(
        lib["licenses"],
        json!([{ "expression": "MIT OR Apache-2.0" }])
    );
    assert_eq!(
        lib["hashes"],
        json!([{ "alg": "SHA-256", "content": "ab12" }])
    );
    let below = json!(["pkg:cargo/lib@2.0.0", "pkg:cargo/old@4.0.0"]);
    let edge = json!({ "ref": "pkg:cargo/app@1.0.0", "dependsOn": below });
    assert_eq!(bill["dependencies"][0], edge);
    // The package that only the tests of `lib` need is no part of it.
    let below = json!(["pkg:cargo/bare@3.0.0"]);
    assert_eq!(bill["dependencies"][1]["dependsOn"], below);

    fs::write(folder.join("tree"), "other v1.0.0\n").unwrap();
    let output = parts(&folder, &["bill", "metadata", "tree", "lock"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    for tree in ["", "app\n", "error: no such package\n"] {
        fs::write(folder.join("tree"), tree).unwrap();
        let output = parts(&folder, &["bill", "metadata", "tree", "lock"]);
        assert_eq!(output.status.code(), Some(1), "{tree}: {output:?}");
    }
}

/// An ELF program of nothing but sections with these names.
fn program(names: &[&str]) -> Vec<u8> {
    let strings: String = names.iter().map(|name| format!("{name}\0")).collect();
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(64, 0);
    let sections = 64 + strings.len();
    bytes[0x28..0x30].copy_from_slice(&(sections as u64).to_le_bytes());
    bytes[0x3a..0x3c].copy_from_slice(&64_u16.to_le_bytes());
    bytes[0x3c..0x3e].copy_from_slice(&(names.len() as u16).to_le_bytes());
    bytes.extend(strings.bytes());
    for name in names {
        let at = strings.find(&format!("{name}\0")).unwrap() as u32;
        let mut row = vec![0; 64];
        row[..4].copy_from_slice(&at.to_le_bytes());
        // Section 0, which holds the names in this program, begins behind the header.
        row[24..32].copy_from_slice(&64_u64.to_le_bytes());
        bytes.extend(row);
    }
    bytes
}

#[test]
fn a_program_with_symbols_is_told_from_a_stripped_one() {
    let folder = folder("stripped");
    let whole = program(&[".shstrtab", ".text", ".data"]);
    for (bytes, code) in [
        (whole.clone(), 0),
        (program(&[".shstrtab", ".text", ".symtab"]), 1),
        (program(&[".shstrtab", ".debug_info"]), 1),
        (whole[..whole.len() - 60].to_vec(), 1),
        (whole[..30].to_vec(), 1),
        (b"#!/bin/sh\n".to_vec(), 1),
    ] {
        fs::write(folder.join("program"), bytes).unwrap();
        let output = parts(&folder, &["stripped", "program"]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        // A traceback would be a mistake of the script's, not a verdict.
        assert!(!text(&output.stderr).contains("Traceback"), "{output:?}");
    }
}

#[test]
fn a_release_refuses_what_it_does_not_know() {
    for words in [&["--target"][..], &["--fast"], &["--features"]] {
        let mut script = Command::new("bash");
        script.arg(root().join("scripts/release")).args(words);
        let output = script.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(
            text(&output.stdout).contains("scripts/release"),
            "{output:?}"
        );
    }
    // A target that can't be built for is told, and the release fails.
    let out = folder("targets");
    let mut script = Command::new("bash");
    script.arg(root().join("scripts/release"));
    script.args(["--no-npm", "--target", "sparc-sun-solaris"]);
    let output = script.env("CARGO_TARGET_DIR", &out).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stderr);
    assert!(
        said.contains("not made: sparc-sun-solaris: it is no target of a release"),
        "{said}"
    );
}
