//! Every rule alone and with others, at once and in blocks.

use super::{F32, WHOLE, blocks, check, check_by, data, problem, sizes};
use moebius_ops::Element;
use moebius_ops::attention::{Pattern, Problem, Rule};

const ALL: Pattern = Pattern {
    batch: true,
    heads: true,
};
const NONE: Pattern = Pattern {
    batch: false,
    heads: false,
};
const HEADS: Pattern = Pattern {
    batch: false,
    heads: true,
};
const BATCH: Pattern = Pattern {
    batch: true,
    heads: false,
};

fn in_blocks(p: &Problem) {
    check_by(p, &data(p), &[blocks(8)], F32);
}

#[test]
fn attention_without_rules() {
    check(&problem(sizes(21, 29), &[]));
    check(&problem(sizes(16, 8), &[]).with_sinks(true));
}

#[test]
fn rules_by_place() {
    let rules = [
        Rule::Causal,
        Rule::CausalTopLeft,
        Rule::Window(6),
        Rule::SymmetricWindow(4),
        Rule::Prefix(5),
        Rule::Global {
            tokens: 2,
            window: 3,
        },
        Rule::Dilated(3),
    ];
    for rule in rules {
        check(&problem(sizes(21, 29), &[rule]));
        // The first queries see nothing under some of them.
        in_blocks(&problem(sizes(29, 13), &[rule]));
        for first in [-7, 19] {
            let problem = problem(sizes(21, 29), &[rule, Rule::Relative(40)]);
            let rules = problem.rules().with_position(Some(first));
            in_blocks(&problem.with_rules(rules).unwrap());
        }
    }
}

#[test]
fn rules_by_table() {
    let rules = [
        Rule::Documents,
        Rule::Blocks(4),
        Rule::Blocks(11),
        Rule::Mask(ALL),
        Rule::Mask(NONE),
    ];
    for rule in rules {
        check(&problem(sizes(21, 29), &[rule]));
    }
}

#[test]
fn rules_that_change_scores() {
    let rules = [
        Rule::Alibi,
        Rule::Softcap(1.2),
        Rule::Bias(ALL),
        Rule::Bias(NONE),
        Rule::Bias(HEADS),
        Rule::Relative(4),
        Rule::Relative(0),
        Rule::Relative(100),
    ];
    for rule in rules {
        check(&problem(sizes(21, 29), &[rule]));
    }
    check(&problem(sizes(29, 13), &[Rule::Relative(7)]));
}

#[test]
fn rules_together() {
    let together: [&[Rule]; 6] = [
        &[
            Rule::Alibi,
            Rule::Softcap(1.5),
            Rule::Bias(ALL),
            Rule::Causal,
        ],
        &[Rule::Bias(BATCH), Rule::Softcap(2.0), Rule::Documents],
        &[
            Rule::Relative(2),
            Rule::Softcap(2.0),
            Rule::SymmetricWindow(9),
            Rule::Mask(HEADS),
        ],
        &[Rule::Softcap(0.8), Rule::Relative(6), Rule::Window(12)],
        &[Rule::Causal, Rule::Blocks(5), Rule::Dilated(2)],
        &[Rule::Prefix(4), Rule::Documents, Rule::Mask(BATCH)],
    ];
    for rules in together {
        let problem = problem(sizes(21, 29), rules);
        check(&problem);
        check(&problem.with_sinks(true));
    }
}

#[test]
fn dropouts() {
    let rules: [&[Rule]; 3] = [
        &[],
        &[Rule::Causal],
        &[Rule::Bias(BATCH), Rule::Softcap(2.0), Rule::Relative(3)],
    ];
    for rules in rules {
        check(&problem(sizes(21, 29), rules).with_dropout(true));
    }
}

#[test]
fn halves_are_summed_in_f32() {
    let rules = [Rule::Softcap(2.0), Rule::Relative(5), Rule::Causal];
    // A rounding of the results, and in gradients that of o.
    for (element, tolerance) in [
        (Element::F16, [5e-4, 2e-3]),
        (Element::Bf16, [4e-3, 1.5e-2]),
    ] {
        let p = problem(sizes(21, 29), &rules).with_element(element);
        check_by(&p, &data(&p), &[WHOLE, blocks(8)], tolerance);
    }
}
