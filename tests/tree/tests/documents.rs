//! The documents are right about the tree: the files they name exist, and the commands they show are there.
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

use std::path::Path;

use moebius_tree::root;

/// The documents that describe the tree, and so must be right about it.
const MAPS: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

/// The paths of all documents that are checked: [`MAPS`] and the pages of `docs/`.
fn maps() -> Vec<String> {
    let pages = std::fs::read_dir(root().join("docs")).unwrap();
    let names = pages.map(|page| page.unwrap().file_name().to_string_lossy().into_owned());
    let pages = names
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("docs/{name}"));
    MAPS.iter()
        .map(|&map| map.to_owned())
        .chain(pages)
        .collect()
}

#[test]
fn documents_name_files_that_exist() {
    let mut offences = Vec::new();
    for map in maps() {
        let file = root().join(&map);
        let text = std::fs::read_to_string(&file).unwrap();
        // A link starts at its page; a path in prose at the root.
        let folder = file.parent().unwrap().to_owned();
        for (number, line) in prose(&text) {
            let linked = links(line)
                .into_iter()
                .map(|path| (folder.join(path), path));
            let named = code_paths(line)
                .into_iter()
                .map(|path| (root().join(path), path));
            for (_, path) in linked.chain(named).filter(|(place, _)| !place.exists()) {
                offences.push(format!("{map}:{number}: {path}"));
            }
        }
    }
    assert!(
        offences.is_empty(),
        "A document names a file or folder that is not there:\n  {}",
        offences.join("\n  ")
    );
}

/// Numbered lines outside of code fences.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Targets of `[text](target)` inside the tree, without their anchors.
fn links(line: &str) -> Vec<&str> {
    let targets = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| !target.contains("://"))
        .filter_map(|target| target.split('#').next())
        .filter(|target| !target.is_empty())
        .collect()
}

/// Code spans that look like a path of the tree: `a/b`, `a/` or a file with a known ending.
fn code_paths(line: &str) -> Vec<&str> {
    let spans = line.split('`').skip(1).step_by(2);
    let endings = [".rs", ".md", ".toml", ".py", ".lock", ".safetensors"];
    spans
        .filter(|span| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
            let elsewhere = span.starts_with(['/', '.']) && !span.starts_with(".c");
            let looks = span.contains('/') || endings.iter().any(|e| span.ends_with(e));
            // Build output is made, not kept.
            looks && !elsewhere && span.chars().all(plain) && !span.starts_with("target/")
        })
        .collect()
}

/// The book's contents name every page, and nothing else.
#[test]
fn the_book_has_all_pages() {
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let mut listed: Vec<String> = prose(&summary)
        .flat_map(|(_, line)| links(line))
        .map(|page| format!("docs/{page}"))
        .collect();
    let mut pages = maps();
    pages.retain(|page| page.starts_with("docs/") && page != "docs/SUMMARY.md");
    listed.sort();
    pages.sort();
    assert_eq!(listed, pages);
}

#[test]
fn the_two_commands_of_the_readme_work() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let readme = read("README.md");
    for command in ["cargo run --release", "scripts/test"] {
        assert!(
            readme.lines().any(|line| line.starts_with(command)),
            "README.md shows no line `{command}`"
        );
    }
    assert!(
        read(".ci/run").contains("exec scripts/test"),
        ".ci/run is scripts/test"
    );
    assert!(
        read("scripts/test").contains("-p moebius-runner"),
        "scripts/test is the program in tests/runner"
    );
    assert!(
        read("tests/runner/src/main.rs").contains(r#"&["scripts/setup"]"#),
        "the tests set up first"
    );
    for script in ["scripts/setup", "scripts/test", ".ci/run"] {
        assert!(
            is_executable(&root().join(script)),
            "{script} has no run bit"
        );
    }
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().unwrap().permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.exists() // other systems keep no run bit
}
