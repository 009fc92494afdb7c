//! `docs/api.md` is the list of what the crate `moebius` makes public: no name is missing, and none is there that isn't.
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

use std::collections::BTreeSet;
use std::fs;

use moebius_tree::root;

/// Files whose `pub use` and public types are the public surface, and those whose public functions are.
const REEXPORTS: &[&str] = &[
    "lib.rs",
    "attention/mod.rs",
    "moe/mod.rs",
    "moe/experts/mod.rs",
    "moe/routers/mod.rs",
    "moe/switching/mod.rs",
    "fp8/mod.rs",
    "fp8/training/mod.rs",
    "nn.rs",
];
const FUNCTIONS: &[&str] = &[
    "attention/mod.rs",
    "fp8/training/mod.rs",
    "nn.rs",
    "operation.rs",
];

fn words(text: &str) -> impl Iterator<Item = &str> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.split(move |c: char| !part(c))
        .filter(|word| !word.is_empty())
}

/// The names that a file re-exports for everyone.
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

/// The names of the items that a file has after `keyword` at the beginning of a line.
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
    for name in REEXPORTS {
        let text = read(name);
        names.extend(reexported(&text));
        names.extend(written(&text, "\npub struct "));
        names.extend(written(&text, "\npub enum "));
    }
    for name in FUNCTIONS {
        names.extend(written(&read(name), "\npub fn "));
    }
    names
}

/// The names in backquotes of the page, but paths and files.
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
    let known = [
        "MultiHeadAttention",
        "moebius",
        "auto",
        "wgpu",
        "vulkan",
        "cuda",
        "rocm",
        "cpu",
        "flex",
        "Result",
    ];
    let others = listed.difference(&public);
    let others: Vec<_> = others
        .filter(|name| !known.contains(&name.as_str()))
        .collect();
    assert!(others.is_empty(), "docs/api.md lists {others:?}");
}
