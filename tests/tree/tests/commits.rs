//! Subjects of commits are short and imperative; details and reasons are in the body. Commits up to [`SINCE`] are exempt.
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use moebius_tree::root;

/// The last commit that is exempt.
const SINCE: &str = "b6104b65ddbf84a4f8e253e5fb2784ea5308a972";

/// The most characters in a subject: lists of commits truncate longer ones.
const MAX_SUBJECT: usize = 72;

/// Words that begin a noun phrase or a statement, and so no imperative.
const NO_ORDERS: &[&str] = &[
    "A", "All", "An", "Any", "Both", "Each", "Every", "He", "Her", "His", "How", "I", "It", "Its",
    "My", "No", "Our", "She", "Some", "That", "The", "Their", "There", "These", "They", "This",
    "Those", "We", "What", "When", "Where", "Which", "Who", "Whose", "Why", "You", "Your",
];

/// Imperatives that end like "Added" or "Adding".
const ORDERS: &[&str] = &[
    "Bring", "Embed", "Exceed", "Feed", "Need", "Ping", "Proceed", "Seed", "Shed", "Shred",
    "Speed", "Spring", "String", "Succeed", "Swing",
];

/// The fault of a subject, if it has one. Whether it is about a single change is for readers to judge.
fn fault(subject: &str) -> Option<String> {
    let length = subject.chars().count();
    if length > MAX_SUBJECT {
        return Some(format!("has {length} characters"));
    }
    let Some(first) = subject.split_whitespace().next() else {
        return Some("is empty".to_owned());
    };
    if !first.starts_with(char::is_uppercase) {
        return Some("begins with no upper-case letter".to_owned());
    }
    let word = first.trim_end_matches(|c: char| !c.is_alphanumeric());
    let tells = ["ed", "ing"].iter().any(|end| word.ends_with(end)) && !ORDERS.contains(&word);
    if tells || NO_ORDERS.contains(&word) {
        return Some(format!("begins with \"{word}\", which is no order"));
    }
    let stop = subject.ends_with('.');
    stop.then(|| "ends with a full stop".to_owned())
}

/// Git's output in `folder`, or its error.
fn git(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    // Git hooks set these variables for the repository that they run in.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    let output = command.current_dir(folder).args(arguments).output();
    let output = output.map_err(|error| format!("git can't be run: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether git is installed.
fn has_git() -> bool {
    let version = Command::new("git").arg("--version").output();
    !version.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Hash and subject of each commit of `folder` after `since`, except merges, whose subjects git writes.
///
/// A shallow clone may lack `since`: then all its commits are later and count. Another history without `since` belongs to
/// another project and has none.
fn subjects(folder: &Path, since: &str) -> Result<Vec<(String, String)>, String> {
    let commit = format!("{since}^{{commit}}");
    let range = if git(folder, &["cat-file", "-e", &commit]).is_ok() {
        format!("{since}..HEAD")
    } else if git(folder, &["rev-parse", "--is-shallow-repository"])?.trim() == "true" {
        "HEAD".to_owned()
    } else {
        return Ok(Vec::new());
    };
    let log = git(folder, &["log", "--no-merges", "--format=%h%x09%s", &range])?;
    let pair = |line: &str| {
        let (hash, subject) = line.split_once('\t')?;
        Some((hash.to_owned(), subject.to_owned()))
    };
    Ok(log.lines().filter_map(pair).collect())
}

#[test]
fn subjects_are_short_orders() {
    // An archive of the sources has no history.
    if !root().join(".git").exists() || !has_git() {
        return;
    }
    let subjects = subjects(&root(), SINCE).unwrap();
    let wrong = subjects.iter().filter_map(|(hash, subject)| {
        let fault = fault(subject)?;
        Some(format!("{hash} {fault}: {subject}"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(
        wrong.is_empty(),
        "A subject is an order of at most {MAX_SUBJECT} characters, with an upper-case letter first and no full stop \
         (CONTRIBUTING.md):\n  {}",
        wrong.join("\n  ")
    );
}

#[test]
fn good_subjects_pass() {
    for subject in [
        "Add a cache in FP8",
        "Fix the sign of a NaN in the quantiser",
        "Bring the server back",
        "Embed the bundled model; say its licence",
        "Speed up attention on GPUs",
        "Need Rust 1.95",
        "Feed codes to matrix instructions",
        "Re-order the sort's kernels",
        "Revert \"Add a cache\"",
        &format!("Add {}", "é".repeat(MAX_SUBJECT - 4)),
    ] {
        assert_eq!(fault(subject), None, "{subject}");
    }
}

#[test]
fn each_fault_is_found() {
    let long = format!("Add {}", "é".repeat(MAX_SUBJECT - 3));
    for (subject, what) in [
        (long.as_str(), "has 73 characters"),
        ("", "empty"),
        ("  ", "empty"),
        ("add a cache", "upper-case"),
        ("`auto` takes `flex`", "upper-case"),
        ("fixup! Add a cache", "upper-case"),
        ("2 more cases", "upper-case"),
        ("Added a cache", "\"Added\""),
        ("Adding a cache", "\"Adding\""),
        ("Renamed: moe to experts", "\"Renamed\""),
        ("A job of the deep tier runs once in twelve runs", "\"A\""),
        ("The page has the table", "\"The\""),
        ("It compiles", "\"It\""),
        ("What a launch costs", "\"What\""),
        ("Every WGSL text is compiled twice", "\"Every\""),
        ("Add a cache.", "full stop"),
        ("Add a cache ...", "full stop"),
    ] {
        let found = fault(subject).unwrap_or_default();
        assert!(found.contains(what), "{subject}: {found}");
    }
}

/// An empty folder for one test.
fn fresh(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn subjects_are_those_after_a_commit() {
    if !has_git() {
        return;
    }
    let folder = fresh("commits");
    let run = |arguments: &[&str]| git(&folder, arguments).unwrap();
    run(&["init", "-q"]);
    let commit = |subject: &str| {
        let author = ["-c", "user.name=a", "-c", "user.email=a@b.c"];
        let how = ["-c", "commit.gpgsign=false", "commit", "-q", "--no-verify"];
        run(&[&author[..], &how, &["--allow-empty", "-m", subject]].concat());
        run(&["rev-parse", "HEAD"]).trim().to_owned()
    };
    let of = |folder: &Path, since: &str| -> Vec<String> {
        let subjects = subjects(folder, since).unwrap().into_iter();
        subjects.map(|(_, subject)| subject).collect()
    };
    let first = commit("Begin");
    assert!(of(&folder, &first).is_empty(), "none after the last");
    commit("Add\tone\n\nIts reasons.");
    commit("Add two");
    assert_eq!(of(&folder, &first), ["Add two", "Add\tone"]);
    let unknown = "0123456789012345678901234567890123456789";
    assert!(of(&folder, unknown).is_empty(), "another history");

    let clone = fresh("commits-shallow");
    let from = format!("file://{}", folder.display());
    git(&clone, &["clone", "-q", "--depth", "1", &from, "."]).unwrap();
    assert_eq!(of(&clone, &first), ["Add two"]);
    // A failure of git is an error, not a history without commits.
    assert!(subjects(&folder.join("none"), &first).is_err());
}
