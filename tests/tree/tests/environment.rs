//! The table of `docs/environment.md` is that of the sources: every environment variable that a program, a test or a
//! script reads stands there, and no other.
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

use std::collections::BTreeSet;

use moebius_tree::{paths, root};

/// What a Rust file does with the environment. A file that does any of it names the variables it means.
const READS: &[&str] = &["env::var(", "var_os(", "set_var(", "override_from_env("];

/// Capitals that are no variables of the environment: bash's own, one of /etc/os-release, JavaScript's, a word of an error.
const NO_VARIABLES: &[&str] = &["SECONDS", "ID", "JSON", "FP8"];

/// A word of capitals, digits and `_`.
fn is_name(word: &str) -> bool {
    let part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    word.len() > 1 && word.starts_with(|c: char| c.is_ascii_uppercase()) && word.chars().all(part)
}

/// Of a Rust file that reads the environment: its texts that are names.
fn rust(text: &str) -> BTreeSet<String> {
    if !READS.iter().any(|call| text.contains(call)) {
        return BTreeSet::new();
    }
    // Those of the compiler, `env!("…")`, are no part of a program's environment.
    let parts: Vec<&str> = text.split('"').collect();
    let texts = parts.windows(2).filter(|pair| !pair[0].ends_with("env!("));
    let names = texts.map(|pair| pair[1]).filter(|text| is_name(text));
    names.map(str::to_owned).collect()
}

/// Of JavaScript and Python: the names in lines with `marker`.
fn script(text: &str, marker: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| line.contains(marker));
    let words = lines.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    words
        .filter(|word| is_name(word))
        .map(str::to_owned)
        .collect()
}

/// Of the shell: names that are read and never assigned, or read with another value for where they aren't set.
fn shell(text: &str) -> BTreeSet<String> {
    let code: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .collect();
    let assigned = |name: &str| {
        let assignment = format!("{name}=");
        let words = code.iter().flat_map(|line| line.split([' ', ';', '(']));
        words.into_iter().any(|word| word.starts_with(&assignment))
    };
    let mut read = BTreeSet::new();
    for rest in code.iter().flat_map(|line| line.split('$').skip(1)) {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        let with_default = after.starts_with(":-") || after.starts_with('-');
        if is_name(name) && (with_default || !assigned(name)) {
            read.insert(name.to_owned());
        }
    }
    read
}

/// The variables of the whole tree.
fn read() -> BTreeSet<String> {
    let (mut names, mut shells) = (BTreeSet::new(), String::new());
    for path in paths() {
        let path = root().join(path);
        // This file names variables in order to look for them.
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        match path.extension().and_then(|ending| ending.to_str()) {
            // What cargo hands to a build script is no setting.
            _ if path.ends_with("tests/environment.rs") || path.ends_with("build.rs") => {}
            Some("rs") => names.extend(rust(&text)),
            Some("mjs" | "js" | "ts") => names.extend(script(&text, "process.env")),
            Some("py") => names.extend(script(&text, "environ")),
            Some("sh") | None if text.contains("shell=bash") || text.starts_with("#!") => {
                // Together: some set what others read.
                shells.push_str(&text);
            }
            _ => {}
        }
    }
    names.extend(shell(&shells));
    names.retain(|name| !NO_VARIABLES.contains(&name.as_str()));
    names
}

/// The names in the first cells of the table.
fn documented(page: &str) -> BTreeSet<String> {
    let cells = page
        .lines()
        .filter_map(|row| row.strip_prefix("| `")?.split(" | ").next());
    let spans = cells.flat_map(|cell| cell.split('`').step_by(2));
    let names = spans.filter_map(|span| span.split('=').next());
    names
        .filter(|name| is_name(name))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_table_has_what_is_read() {
    let page = std::fs::read_to_string(root().join("docs/environment.md")).unwrap();
    let (table, read) = (documented(&page), read());
    let missing: Vec<&String> = read.difference(&table).collect();
    let idle: Vec<&String> = table.difference(&read).collect();
    assert!(
        missing.is_empty() && idle.is_empty(),
        "docs/environment.md lacks {missing:?}, and has {idle:?}, which nothing reads"
    );
}

#[test]
fn each_way_to_read_a_variable_is_found() {
    let set =
        |names: &[&str]| -> BTreeSet<String> { names.iter().map(|n| (*n).to_owned()).collect() };
    assert_eq!(rust("f(\"HOME\"); std::env::var_os(n)"), set(&["HOME"]));
    assert_eq!(rust("f(\"HOME\")"), set(&[]));
    assert_eq!(
        script("const { A_B, ...rest } = process.env;\nC_D", "process.env"),
        set(&["A_B"])
    );
    assert_eq!(rust("env!(\"AA\"); env::var(\"BB\")"), set(&["BB"]));
    let text =
        "A1=1\nexport B1=$C1\necho \"$A1 ${D1:-x} ${B1} ${B1:+x} $HOME\"\n# $E1\nF1=\"${F1:-y}\"";
    assert_eq!(shell(text), set(&["C1", "D1", "F1", "HOME"]));
    let table = "# Environment variables\n\n| `A_B=yes`, `C_D` | x `E_F` | y |\n\nand `G_H`\n";
    assert_eq!(documented(table), set(&["A_B", "C_D"]));
}
