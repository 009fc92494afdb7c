//! `benches/RESULTS.md` and `scripts/bench` agree: both have the same sections, each section states its commit and its command,
//! and the command runs something.
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]
#![cfg(unix)] // the script needs bash

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use moebius_tree::root;

/// The sections of the results: name, and text up to the next heading.
fn sections(results: &str) -> Vec<(String, String)> {
    let parts = results.split("\n### ").skip(1);
    parts
        .map(|part| {
            let name = part.split('`').nth(1).unwrap_or_default();
            let text = part.split("\n## ").next().unwrap_or_default();
            (name.to_owned(), text.to_owned())
        })
        .collect()
}

/// What a section lacks, if anything.
fn lacks((name, text): &(String, String)) -> Option<String> {
    let taken = text.lines().nth(2).unwrap_or_default();
    let rest = taken.strip_prefix("Taken at `").unwrap_or_default();
    let commit = rest.split('`').next().unwrap_or_default();
    let hexadecimal = |c: char| c.is_ascii_hexdigit() && !c.is_ascii_uppercase();
    let script = format!("`scripts/bench {name}`: `");
    let (expected, got) = if !text.starts_with(&format!("`{name}`: ")) {
        ("a heading \"### `SECTION`: …\"".to_owned(), text.as_str())
    } else if !(7..=40).contains(&commit.len()) || !commit.chars().all(hexadecimal) {
        ("\"Taken at `COMMIT`\" first".to_owned(), taken)
    } else if !taken.contains(&script) {
        (format!("{script}COMMAND` in its first line"), taken)
    } else {
        return None;
    };
    Some(format!("{name}: expected {expected}, got {got:.80}"))
}

fn bench(arguments: &[&str], path: &str) -> Output {
    Command::new("bash")
        .arg(root().join("scripts/bench"))
        .args(arguments)
        .env("PATH", path)
        // Sections for XLA check for the plugin, which isn't installed everywhere.
        .env("MOEBIUS_PJRT_CPU", "plugin")
        .env("CARGO_TARGET_DIR", stub_folder())
        .output()
        .unwrap()
}

fn path() -> String {
    std::env::var("PATH").unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The names listed by `scripts/bench --list`.
fn listed() -> Vec<String> {
    let output = bench(&["--list"], &path());
    assert!(output.status.success(), "{output:?}");
    let lines = text(&output.stdout);
    let names = lines
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

#[test]
fn sections_have_a_commit_a_command_and_a_script() {
    let results = std::fs::read_to_string(root().join("benches/RESULTS.md")).unwrap();
    let sections = sections(&results);
    let offences: Vec<String> = sections.iter().filter_map(lacks).collect();
    assert!(offences.is_empty(), "{}", offences.join("\n"));
    let mut names: Vec<String> = sections.into_iter().map(|(name, _)| name).collect();
    let mut listed = listed();
    names.sort();
    listed.sort();
    assert_eq!(names, listed, "sections of RESULTS.md and of scripts/bench");
}

#[test]
fn a_section_without_commit_or_command_is_found() {
    let good = "\n### `a-b`: title\n\nTaken at `0123abc` with `scripts/bench a-b`: `run`.\n";
    assert_eq!(lacks(&sections(good)[0]), None);
    for (part, other) in [
        ("`a-b`: title", "Title"),
        ("`0123abc`", "`main`"),
        ("Taken", "Measured"),
        ("bench a-b", "bench c"),
        (": `run`", ""),
    ] {
        let bad = good.replace(part, other);
        assert!(lacks(&sections(&bad)[0]).is_some(), "{bad}");
    }
}

#[test]
fn what_is_no_section_is_an_error_with_the_list() {
    for arguments in ["no-such", "start-up moe", "--json start-up"] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let output = bench(&arguments, &path());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
    let said = text(&bench(&["no-such"], &path()).stderr);
    assert!(said.contains("no section no-such"), "{said}");
    for name in listed() {
        assert!(said.contains(&format!("\n  {name} ")), "{name}: {said}");
    }
}

fn stub_folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-stubs")
}

/// A folder of programs that only print how they were called, so that each section runs within seconds.
fn stubs() -> PathBuf {
    let folder = stub_folder();
    std::fs::create_dir_all(folder.join("release")).unwrap();
    let stub = "#!/bin/sh\necho \"ran ${0##*/} $*\"\n";
    let programs = ["cargo", "node", "npm", "python3", "rustc"];
    for name in programs.into_iter().chain(["release/moebius"]) {
        let path = folder.join(name);
        std::fs::write(&path, stub).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

#[test]
fn every_section_runs_release_builds_on_the_device_asked_for() {
    let path = format!("{}:{}", stubs().display(), path());
    for name in listed().iter().filter(|name| !name.starts_with("browser")) {
        let xla = name.starts_with("xla");
        let device = if xla { "xla:cpu" } else { "cuda:0" };
        let output = bench(&["--device", device, name], &path);
        let (said, progress) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{name}: {said}{progress}");
        for key in ["machine: ", "commit: ", "date: ", "compiler: ran rustc"] {
            let told = progress.contains(&format!("# {key}"));
            assert!(told, "{name}: {key}: {progress}");
        }
        let commands = progress.lines().filter_map(|line| line.strip_prefix("$ "));
        let commands: Vec<&str> = commands.collect();
        assert!(!commands.is_empty(), "{name}: {progress}");
        for command in commands {
            let in_release = command.contains(" --release ")
                || command.starts_with("cargo bench ")
                || command.ends_with("/release/moebius devices");
            assert!(in_release, "{name}: {command}");
        }
        if name != "xla-call" {
            assert!(progress.contains(device), "{name}: {progress}");
        }
    }
    let output = bench(&["--json", "moe-fine"], &path);
    let runs = text(&output.stdout);
    let runs: Vec<&str> = runs.lines().collect();
    assert!(!runs.is_empty(), "{output:?}");
    let mut benches = runs.iter();
    let all = benches.all(|run| run.contains(" -- --json bench moe "));
    assert!(all, "{runs:?}");
}
