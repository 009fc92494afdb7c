//! Tests of Burn's operations, lowered to StableHLO and executed by the CPU plugin, against Flex.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic"
)]

mod by_hand;
#[path = "../cpu/mod.rs"]
mod cpu;
mod elements;
mod golden;
mod harness;
mod indexing;
mod layers;
mod numeric;
mod random;

use harness::{Case, run};

fn all_cases() -> Vec<Case> {
    let cases = [
        elements::cases(),
        indexing::cases(),
        numeric::cases(),
        layers::cases(),
    ];
    cases.into_iter().flatten().collect()
}

#[test]
fn elements_are_those_of_flex() {
    run(&elements::cases());
}

#[test]
fn indices_find_what_flex_finds() {
    run(&indexing::cases());
}

#[test]
fn numbers_are_those_of_flex() {
    run(&numeric::cases());
}

#[test]
fn layers_and_gradients_are_those_of_flex() {
    run(&layers::cases());
}
