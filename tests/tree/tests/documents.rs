//! The documents agree with the tree: the files they name exist, the commands they show exist, `docs/api.md` lists the public
//! names of the crate `moebius`, and `docs/environment.md` lists exactly the environment variables that programs, tests and
//! scripts read.
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use moebius_tree::{assert_none, paths, root};

/// Documents that describe the tree and are checked against it.
const MAPS: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

/// Folders with pages of the book.
const PAGES: [&str; 3] = ["docs", "docs/demos", "docs/deploy"];

/// The paths of all documents that are checked: [`MAPS`] and the pages of the book.
fn maps() -> Vec<String> {
    let pages = PAGES.iter().flat_map(|folder| {
        let pages = fs::read_dir(root().join(folder)).unwrap();
        let names = pages.map(|page| page.unwrap().file_name().to_string_lossy().into_owned());
        let names = names.filter(|name| name.ends_with(".md"));
        names.map(move |name| format!("{folder}/{name}"))
    });
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
        let text = fs::read_to_string(&file).unwrap();
        // A link is relative to its page; a path in prose to the root.
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
    let rule = "A document names a file or folder that is not there:";
    assert_none(rule, &offences);
}

/// Lines outside of code fences, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Targets of links `[text](target)` within the tree, without their anchors.
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

/// Code spans that look like a path of the tree: `a/b`, `a/`, or a file with a known extension.
fn code_paths(line: &str) -> Vec<&str> {
    let spans = line.split('`').skip(1).step_by(2);
    let endings = [".rs", ".md", ".toml", ".py", ".lock", ".safetensors"];
    spans
        .filter(|span| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
            let elsewhere = span.starts_with(['/', '.']) && !span.starts_with(".c");
            let looks = span.contains('/') || endings.iter().any(|e| span.ends_with(e));
            // Build output isn't in the tree.
            looks && !elsewhere && span.chars().all(plain) && !span.starts_with("target/")
        })
        .collect()
}

/// The book's table of contents lists every page, and nothing else.
#[test]
fn the_book_has_all_pages() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
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
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let readme = read("README.md");
    for command in ["cargo run --release", "scripts/test"] {
        let shown = readme.lines().any(|line| line.starts_with(command));
        assert!(shown, "README.md shows no line `{command}`");
    }
    for (path, text) in [
        (".ci/run", "exec scripts/test"),
        ("scripts/test", "-p moebius-runner"),
        ("tests/runner/src/plan.rs", "scripts/setup {option}"),
    ] {
        assert!(read(path).contains(text), "{path} has no {text}");
    }
    for script in ["scripts/setup", "scripts/test", ".ci/run"] {
        let runs = is_executable(&root().join(script));
        assert!(runs, "{script} has no run bit");
    }
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().unwrap().permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.exists() // other systems have no executable bit
}

/// Files whose `pub use` and public types belong to the public interface, and files whose public functions do.
const REEXPORTS: &str = "lib.rs attention/mod.rs moe/mod.rs moe/experts/mod.rs moe/routers/mod.rs moe/switching/mod.rs fp8/mod.rs \
    fp8/training/mod.rs nn.rs pad.rs exact.rs sparse.rs blocks.rs";
const FUNCTIONS: &str =
    "reduce.rs attention/mod.rs fp8/training/mod.rs nn.rs operation.rs pad.rs exact.rs";

fn words(text: &str) -> impl Iterator<Item = &str> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.split(move |c: char| !part(c))
        .filter(|word| !word.is_empty())
}

/// The names that a file re-exports publicly.
fn reexported(text: &str) -> BTreeSet<String> {
    let statements = text.split("\npub use ").skip(1);
    let names = statements.flat_map(|statement| {
        let path = statement.split(';').next().unwrap();
        let list = path.split('{').nth(1);
        let last = path.rsplit("::").next().unwrap();
        words(list.unwrap_or(last)).map(str::to_owned)
    });
    names.collect()
}

/// The names of a file's items after `keyword` at the start of a line.
fn written(text: &str, keyword: &str) -> BTreeSet<String> {
    let items = text.split(keyword).skip(1);
    items
        .map(|rest| words(rest).next().unwrap().to_owned())
        .collect()
}

fn public() -> BTreeSet<String> {
    let src = root().join("runtime/core/src");
    let read = |name: &str| fs::read_to_string(src.join(name)).unwrap();
    let mut names = BTreeSet::new();
    for name in REEXPORTS.split(' ') {
        let text = read(name);
        names.extend(reexported(&text));
        names.extend(written(&text, "\npub struct "));
        names.extend(written(&text, "\npub enum "));
    }
    for name in FUNCTIONS.split(' ') {
        names.extend(written(&read(name), "\npub fn "));
    }
    names
}

/// The names in backquotes on the page, except paths and files.
fn listed(page: &str) -> BTreeSet<String> {
    let quoted = page.split('`').skip(1).step_by(2);
    let names = quoted.filter(|name| !name.contains([':', '-', ' ', '(', '.', '…']));
    names.map(str::to_owned).collect()
}

#[test]
fn the_page_lists_what_is_public() {
    let page = fs::read_to_string(root().join("docs/api.md")).unwrap();
    let (public, listed) = (public(), listed(&page));
    let missing: Vec<_> = public.difference(&listed).collect();
    assert!(missing.is_empty(), "docs/api.md lacks {missing:?}");
    let known = "MultiHeadAttention moebius auto wgpu vulkan cuda rocm cpu flex Result";
    let others = listed.difference(&public);
    let others: Vec<_> = others
        .filter(|name| known.split(' ').all(|known| known != *name))
        .collect();
    assert!(others.is_empty(), "docs/api.md lists {others:?}");
}

/// Functions by which Rust code accesses the environment. A file that calls one names its variables in string literals.
const READS: &[&str] = &["env::var(", "var_os(", "set_var(", "override_from_env("];

/// Names in capitals that aren't environment variables: bash's own, one of /etc/os-release, JavaScript's, a word of an error.
const NO_VARIABLES: &[&str] = &["SECONDS", "ID", "JSON", "FP8"];

/// Whether a word consists of capitals, digits and `_`.
fn is_name(word: &str) -> bool {
    let part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    word.len() > 1 && word.starts_with(|c: char| c.is_ascii_uppercase()) && word.chars().all(part)
}

/// The variables of a Rust file that reads the environment: its string literals that are names.
fn rust(text: &str) -> BTreeSet<String> {
    if !READS.iter().any(|call| text.contains(call)) {
        return BTreeSet::new();
    }
    // The compiler's variables, `env!("…")`, don't belong to a program's environment.
    let parts: Vec<&str> = text.split('"').collect();
    let texts = parts.windows(2).filter(|pair| !pair[0].ends_with("env!("));
    let names = texts.map(|pair| pair[1]).filter(|text| is_name(text));
    names.map(str::to_owned).collect()
}

/// The variables of JavaScript or Python: the names in lines that contain `marker`.
fn script(text: &str, marker: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| line.contains(marker));
    let words = lines.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    words
        .filter(|word| is_name(word))
        .map(str::to_owned)
        .collect()
}

/// The variables of a shell script: names that are read but never assigned, or read with a default.
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

/// The environment variables that the whole tree reads.
fn read() -> BTreeSet<String> {
    let (mut names, mut shells) = (BTreeSet::new(), String::new());
    for path in paths() {
        let path = root().join(path);
        // This file names variables only to search for them.
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        match path.extension().and_then(|ending| ending.to_str()) {
            // Variables that cargo passes to a build script are no settings.
            _ if path.ends_with("tests/documents.rs") || path.ends_with("build.rs") => {}
            Some("rs") => names.extend(rust(&text)),
            Some("mjs" | "js" | "ts") => names.extend(script(&text, "process.env")),
            Some("py") => names.extend(script(&text, "environ")),
            Some("sh") | None if text.contains("shell=bash") || text.starts_with("#!") => {
                // Shell scripts are checked together, because some set what others read.
                shells.push_str(&text);
            }
            _ => {}
        }
    }
    names.extend(shell(&shells));
    names.retain(|name| !NO_VARIABLES.contains(&name.as_str()));
    names
}

/// The names in the first column of the table.
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
    let page = fs::read_to_string(root().join("docs/environment.md")).unwrap();
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
