//! Which parts of a step one call of a model computes.

use std::collections::BTreeMap;

use crate::schedule::Work;

/// The parts with as many new tokens as each other, in the order of the step: those that choose one token are one call, and pieces of
/// prompts seldom have company. A token's bits are the same in any company.
pub(super) fn groups(work: &[Work]) -> Vec<Vec<usize>> {
    let mut by_length = BTreeMap::<usize, Vec<usize>>::new();
    for (at, work) in work.iter().enumerate() {
        by_length.entry(work.positions.len()).or_default().push(at);
    }
    by_length.into_values().collect()
}
