//! The case files that travel inside the binary.

use moebius_cases::{CaseError, CaseFile};

/// Name and bytes of every case in `tests/cases/`, 9.7 MB in all.
const CASES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/cases.rs"));

/// How many cases there are.
pub(crate) fn count() -> usize {
    CASES.len()
}

/// The cases, parsed one at a time.
pub(crate) fn cases() -> impl Iterator<Item = (String, Result<CaseFile, CaseError>)> {
    CASES
        .iter()
        .map(|&(name, bytes)| (name.to_owned(), CaseFile::parse(bytes)))
}

#[cfg(test)]
#[path = "bundled_tests.rs"]
mod tests;
