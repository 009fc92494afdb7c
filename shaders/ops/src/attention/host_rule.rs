//! A rule that a program writes itself, on the host.

use super::{Problem, Site};
use std::fmt::Debug;

/// A pair of a query and a key, as such a rule is told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The sequence.
    pub batch: usize,
    /// The query head.
    pub head: usize,
    /// The query i.
    pub query: usize,
    /// The query's: i + Skv − Sq, the key beside it when both end together, unless the first query's was given.
    pub position: i64,
    /// The key j.
    pub key: usize,
}

impl Pair {
    /// That of a site.
    pub fn new(problem: &Problem, site: Site) -> Self {
        Self {
            batch: site.batch,
            head: site.head,
            query: site.query,
            position: problem.position(site.query),
            key: site.key,
        }
    }
}

/// What a program's own rule computes, in plain Rust. It comes after all others: it is given what they made of a score, for
/// keys that they let a query see.
pub trait HostRule: Debug + Send + Sync {
    /// What becomes of the score `s`.
    fn score(&self, s: f64, at: &Pair) -> f64;

    /// The derivative of that by `s`.
    fn slope(&self, s: f64, at: &Pair) -> f64;

    /// Whether the query sees the key.
    fn seen(&self, at: &Pair) -> bool {
        let _ = at;
        true
    }
}
