//! The list of operations, and the table that is made of it.

use super::harness::{bless, covered};
use moebius_xla::lower::{Leaf, leaves};
use std::fmt::Write;

/// Operations that ordinary tensors don't record: they have tests of their own.
const BY_HAND: [&str; 6] = [
    "Float::IsNan",
    "Float::IsInf",
    "NumericFloat::Powi",
    "NumericInt::SumDims",
    "NumericInt::IntRandom",
    "Float::Random",
];

#[test]
fn every_lowered_operation_has_a_case() {
    let covered = covered(&super::all_cases());
    let tested = |leaf: &Leaf| covered.contains_key(leaf) || BY_HAND.contains(&&*leaf.to_string());
    let missing: Vec<String> = leaves()
        .into_iter()
        .filter(|leaf| leaf.lowered && !leaf.name.is_empty() && !tested(leaf))
        .map(|leaf| leaf.to_string())
        .collect();
    assert!(missing.is_empty(), "no case has {}", missing.join(", "));
}

#[test]
fn the_table_lists_every_operation() {
    let leaves = leaves();
    let lowered = leaves.iter().filter(|leaf| leaf.lowered).count();
    let mut text = format!(
        "# Operations\n\n\
         Burn's operations (burn-ir 0.22) and which of them have a lowering to StableHLO: {lowered} of {}. \
         `MOEBIUS_BLESS=1 cargo test\n--workspace --features cpu,xla --test xla_lowering` writes this table.\n\n\
         CTC losses are recorded as other operations, which are lowered. An operation without a lowering is an error \
         that names it, before anything runs.\n",
        leaves.len()
    );
    let mut group = "";
    for leaf in &leaves {
        if leaf.group != group {
            group = leaf.group;
            let _ = write!(text, "\n## {group}\n\n| operation | lowered |\n|---|---|\n");
        }
        let name = if leaf.name.is_empty() {
            group
        } else {
            leaf.name
        };
        let _ = writeln!(
            text,
            "| {name} | {} |",
            if leaf.lowered { "yes" } else { "no" }
        );
    }
    bless("OPERATIONS.md", &text);
}
