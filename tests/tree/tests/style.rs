//! The project's own style rules that no lint checks, tested on the sources. There is one test per rule; each lists `file:line`.
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

use moebius_tree::{assert_none, paths, root};
use syn::visit::{self, Visit};

const MAX_FILE_LINES: usize = 600;
const MAX_FUNCTION_LINES: usize = 60;
/// The most columns in pages' scripts; rustfmt keeps Rust's lines shorter.
const MAX_COLUMNS: usize = 120;

/// Names that don't tell what is inside.
const EMPTY_NAMES: &[&str] = &["base", "utils", "common", "helpers", "misc"];

/// Files in which the lint against unsafe code may be lifted: calls of a PJRT plugin, launch functions, whose SAFETY comments
/// cite what `plan` has checked, calls of a C compiler, a variable that drivers read, instructions without a safe name, an
/// instance of Vulkan and what it tells of memory, and the interface of a CUDA driver.
const UNSAFE_ALLOWED: &[&str] = &[
    "backends/pjrt/src/",
    "backends/device/src/budget.rs",
    "backends/device/src/conversions.rs",
    "backends/device/src/vulkan/instance.rs",
    "tests/runner/src/child.rs",
    "runtime/cli/src/drivers.rs",
    "backends/host/src/f16c.rs",
    "backends/host/src/product/pairs.rs",
    "backends/host/src/product/prefetch.rs",
    "tests/emulator/",
    "tests/failed_launches.rs",
    "tests/src/metal.rs",
    "shaders/kernels/src/",
    "tests/validate/src/nvrtc.rs",
    "wasm/src/constructors.rs",
];

/// Markers of unfinished code, spelt in halves so that this file doesn't contain them.
const STUBS: &[&str] = &[
    concat!("to", "do!"),
    concat!("unimp", "lemented!"),
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Folders of a person's or a machine's files.
const PERSONAL_FOLDERS: &[&str] = &[
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("/t", "mp/"),
    concat!("C:", "\\"),
];

/// Files that are generated, or kept as they were made.
const NOT_OURS: &[&str] = &["Cargo.lock", "LICENSE-", "tests/snapshots/"];

struct Source {
    /// The file's path relative to the root, with `/`.
    path: String,
    text: String,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the file is a script or another part of a web page besides text.
    fn is_script(&self) -> bool {
        let endings = [".js", ".mjs", ".ts", ".css"];
        endings.iter().any(|ending| self.path.ends_with(ending))
    }

    /// The lines in which `offends` finds something, as `path:line: what`.
    fn lines(&self, offends: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let numbered = (1..).zip(self.text.lines());
        let found = numbered.filter_map(|(i, line)| Some(self.at(i, &offends(line)?)));
        found.collect()
    }

    fn at(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

/// Every text file of the project that people write.
fn sources() -> Vec<Source> {
    let theirs = |path: &String| NOT_OURS.iter().any(|prefix| path.starts_with(prefix));
    let ours = paths().into_iter().filter(|path| !theirs(path));
    // A file that is missing or binary has no text to check.
    ours.filter_map(|path| {
        let text = std::fs::read_to_string(root().join(&path)).ok()?;
        Some(Source { path, text })
    })
    .collect()
}

fn check(rule: &str, offences: impl Fn(&Source) -> Vec<String>) {
    let sources = sources();
    let any = sources.iter().any(Source::is_rust);
    assert!(any, "no Rust file was found to check");
    let found: Vec<String> = sources.iter().flat_map(offences).collect();
    assert_none(rule, &found);
}

/// A rule that is checked on a file's syntax tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    FunctionLength,
    GlobReexport,
    ModuleName,
    IgnoredTest,
}

#[derive(Default)]
struct Survey {
    found: Vec<(Rule, usize, String)>,
}

impl Survey {
    fn add(&mut self, rule: Rule, at: proc_macro2::Span, what: String) {
        self.found.push((rule, at.start().line, what));
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.fn_token.span.start().line;
        let lines = block.brace_token.span.close().end().line + 1 - first;
        if lines > MAX_FUNCTION_LINES {
            let name = &signature.ident;
            let what = format!("{name} has {lines} lines");
            self.add(Rule::FunctionLength, name.span(), what);
        }
    }
}

/// Whether an item exists only for tests.
fn for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || matches!(&attribute.meta, syn::Meta::List(list) if list.path.is_ident("cfg") && list.tokens.to_string() == "test")
    })
}

impl<'ast> Visit<'ast> for Survey {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !for_tests(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let public = !matches!(item.vis, syn::Visibility::Inherited);
        if public && has_glob(&item.tree) {
            let what = "name what is re-exported".to_owned();
            self.add(Rule::GlobReexport, item.use_token.span, what);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let name = item.ident.to_string();
        if EMPTY_NAMES.contains(&name.as_str()) {
            self.add(Rule::ModuleName, item.ident.span(), format!("mod {name}"));
        }
        if !for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if attribute.path().is_ident("ignore") {
            let what = "a listed expectation, or gone".to_owned();
            self.add(Rule::IgnoredTest, attribute.pound_token.span, what);
        }
    }
}

fn has_glob(tree: &syn::UseTree) -> bool {
    match tree {
        syn::UseTree::Glob(_) => true,
        syn::UseTree::Path(path) => has_glob(&path.tree),
        syn::UseTree::Group(group) => group.items.iter().any(has_glob),
        syn::UseTree::Name(_) | syn::UseTree::Rename(_) => false,
    }
}

/// The offences against `rule` in a Rust file; a file that doesn't parse breaks every rule.
fn survey(source: &Source, rule: Rule) -> Vec<String> {
    if !source.is_rust() {
        return Vec::new();
    }
    let file = match syn::parse_file(&source.text) {
        Ok(file) => file,
        Err(error) => return vec![source.at(error.span().start().line, &error.to_string())],
    };
    let mut survey = Survey::default();
    survey.visit_file(&file);
    let of_rule = survey.found.into_iter().filter(|found| found.0 == rule);
    let lines = of_rule.map(|(_, line, what)| source.at(line, &what));
    lines.collect()
}

/// Whether a file is a test; tests have no length limit, which would cut them where they have no parts.
fn is_test(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.any(|part| part == "tests" || part == "test") || path.ends_with("/tests.rs")
}

fn function_length(source: &Source) -> Vec<String> {
    if is_test(&source.path) {
        return Vec::new();
    }
    survey(source, Rule::FunctionLength)
}

fn file_length(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    let counted = (source.is_rust() || source.is_script()) && !is_test(&source.path);
    if !counted || lines <= MAX_FILE_LINES {
        return Vec::new();
    }
    vec![source.at(lines, &format!("{lines} lines"))]
}

fn line_length(source: &Source) -> Vec<String> {
    if !source.is_script() {
        return Vec::new();
    }
    source.lines(|line| {
        let columns = line.chars().count();
        (columns > MAX_COLUMNS).then(|| format!("{columns} columns"))
    })
}

fn file_name(source: &Source) -> Vec<String> {
    let named_so = |part: &str| {
        let stem = part.split('.').next().unwrap_or_default();
        EMPTY_NAMES.contains(&stem)
    };
    if !source.path.split('/').any(named_so) {
        return Vec::new();
    }
    vec![source.at(1, "says nothing")]
}

fn lifted_unsafe_lint(source: &Source) -> Vec<String> {
    let mut allowed = UNSAFE_ALLOWED.iter();
    if allowed.any(|folder| source.path.starts_with(folder)) {
        return Vec::new();
    }
    source.lines(|line| {
        let lifted =
            line.contains(concat!("allow(", "unsafe_code")) || line.trim() == "unsafe_code,";
        lifted.then(|| line.trim().to_owned())
    })
}

fn stubs(source: &Source) -> Vec<String> {
    source.lines(|line| {
        let stub = STUBS.iter().find(|stub| has_word(line, stub))?;
        Some(format!("{stub} in: {}", line.trim()))
    })
}

/// Whether `line` contains `word` with no letter, digit or `_` on either side.
fn has_word(line: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(start, _)| {
        let (before, after) = (&line[..start], &line[start + word.len()..]);
        !before.ends_with(part_of_name) && !after.starts_with(part_of_name)
    })
}

fn uncompiled_example(source: &Source) -> Vec<String> {
    source.lines(|line| {
        let info = line.split("```").nth(1)?;
        let mut options = info.split(',').map(str::trim);
        let documents = source.path.ends_with(".md") || line.trim_start().starts_with("//");
        let ignored = documents && options.any(|option| option.starts_with("ignore"));
        ignored.then(|| line.trim().to_owned())
    })
}

fn personal_path(source: &Source) -> Vec<String> {
    source.lines(|line| {
        let starts_there = |folder: &str| {
            line.match_indices(folder).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                before.is_none_or(|c| !(c.is_alphanumeric() || "._-~*}>)]$".contains(c)))
            })
        };
        let personal = PERSONAL_FOLDERS.iter().any(|folder| starts_there(folder));
        personal.then(|| line.trim().to_owned())
    })
}

macro_rules! rules {
    ($($test:ident: $rule:literal, $offences:expr;)*) => {$(
        #[test]
        fn $test() {
            check($rule, $offences);
        }
    )*};
}

rules! {
    files_are_short: "A source file has at most 600 lines:", file_length;
    lines_of_scripts_are_short: "A line of JavaScript or a style sheet has at most 120 columns:", line_length;
    functions_are_short: "A function has at most 60 lines, from `fn` to the closing brace:", function_length;
    reexports_name_what_they_export: "No `pub use` ends in a glob:", |s| survey(s, Rule::GlobReexport);
    names_say_something: "No file, folder or module is called base, utils, common, helpers or misc:",
        |s| [file_name(s), survey(s, Rule::ModuleName)].concat();
    nothing_is_left_half_done: "Real work, a typed error, or gone:", stubs;
    examples_in_docs_compile: "An example in the docs is compiled (`no_run` at most):", uncompiled_example;
    no_test_is_ignored: "A test runs, or it is not there:", |s| survey(s, Rule::IgnoredTest);
    unsafe_code_is_in_few_places: "The lint against unsafe code is lifted in few places only:", lifted_unsafe_lint;
    no_path_of_one_machine: "No path of one person's machine is written down:", personal_path;
}

/// Each rule is given offences, so that no test above passes because it checks nothing.
#[test]
fn each_rule_finds_its_offence() {
    type Offends = fn(&Source) -> Vec<String>;
    let (rust, script, document) = ("core/src/lib.rs", "web/page.mjs", "docs/a.md");
    let modules: Offends = |s| survey(s, Rule::ModuleName);
    let ignored: Offends = |s| survey(s, Rule::IgnoredTest);
    let lengths: Offends = |s| survey(s, Rule::FunctionLength);
    let globs: Offends = |s| survey(s, Rule::GlobReexport);
    let calls = |count| "g();\n".repeat(count);
    let cases: [(Offends, &str, String, usize); 19] = [
        (lengths, rust, format!("fn f() {{\n{}}}", calls(59)), 1),
        (
            lengths,
            rust,
            format!("#[cfg(test)] mod tests {{ fn f() {{\n{}}} }}", calls(99)),
            0,
        ),
        (globs, rust, "pub use a::{b, c::{self, *}};".into(), 1),
        (modules, rust, "mod a { mod utils {} }".into(), 1),
        (modules, rust, "this is no Rust".into(), 1),
        (
            ignored,
            rust,
            concat!("#[test] #[ig", "nore] fn f() {}").into(),
            1,
        ),
        (file_length, rust, "//\n".repeat(601), 1),
        (file_length, script, "//\n".repeat(601), 1),
        (line_length, script, "x".repeat(121), 1),
        (line_length, script, "é".repeat(120), 0),
        (
            lifted_unsafe_lint,
            rust,
            concat!("#![allow(", "unsafe_code, reason = \"quick\")]").into(),
            1,
        ),
        (stubs, rust, format!("// {}: later", STUBS[2]), 1),
        (stubs, rust, format!("fn {}s() {{}}", STUBS[2]), 0),
        (uncompiled_example, rust, "/// ```rust,ignore".into(), 1),
        (
            uncompiled_example,
            document,
            "```rust,ignore\n```\n```rust\n```".into(),
            1,
        ),
        (
            personal_path,
            rust,
            format!("let p = \"{}me\";", PERSONAL_FOLDERS[0]),
            1,
        ),
        (personal_path, rust, "see ~/home/a, x/root/b".into(), 0),
        (file_name, "core/src/misc.rs", String::new(), 1),
        (file_name, "core/base/a.rs", String::new(), 1),
    ];
    for (offends, path, text, count) in cases {
        let path = path.to_owned();
        let source = Source { path, text };
        let found = offends(&source);
        let Source { path, text } = source;
        assert_eq!(found.len(), count, "{path}: {text}: {found:?}");
    }
}
