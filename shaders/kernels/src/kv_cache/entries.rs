//! The compiled variants of cache operations: every format and element type, and rules together.

use super::{
    Attend, CacheFormat, Layout, append_name, launch, launch_append, merge_name, name, plan,
    plan_append,
};
use crate::emit::{KernelEntry, Machine, Planned, valid};
use moebius_ops::Element;
use moebius_ops::attention::{Problem, Rule, Rules, Sizes};
use moebius_ops::kv_cache::Append;

const SIZES: Sizes = Sizes {
    batch: 2,
    heads: 8,
    kv_heads: 2,
    queries: 1,
    keys: 512,
    head_dim: 16,
    value_dim: 8,
};

fn layout(format: CacheFormat) -> Layout {
    valid(Layout::new([64, 16], 2, [16, 8], format))
}

fn attend(format: CacheFormat, element: Element, rules: &[Rule]) -> Attend {
    let rules = valid(Rules::new(rules.iter().copied()));
    let problem = valid(Problem::new(SIZES)).with_element(element);
    let problem = valid(problem.with_rules(rules)).with_sinks(rules.iter().count() > 1);
    valid(Attend::new(problem, layout(format), 32))
}

fn attended(at: &Machine, problem: Attend) -> Planned {
    at.launch(&[], plan(problem, &at.capability), launch)
}

fn appended(at: &Machine, problem: Append) -> Planned {
    at.launch(&[], plan_append(problem, &at.capability), launch_append)
}

/// Appending and attending, in every cache format.
pub fn entries() -> Vec<KernelEntry> {
    let rules = [
        Rule::Alibi,
        Rule::Softcap(30.0),
        Rule::Relative(16),
        Rule::Window(256),
    ];
    let samples = [
        (CacheFormat::F32, Element::F32, &[Rule::Causal][..]),
        (CacheFormat::F16, Element::F32, &[Rule::Causal]),
        (CacheFormat::Bf16, Element::F32, &[Rule::Causal]),
        (CacheFormat::E4m3, Element::F32, &[Rule::Causal]),
        (CacheFormat::F16, Element::F16, &[Rule::Causal]),
        (CacheFormat::F32, Element::F32, &rules),
    ];
    let mut entries = Vec::new();
    for (format, element, rules) in samples {
        let problem = attend(format, element, rules);
        let entry = KernelEntry::new("kv_cache", "attend", name(&problem), move |at: &Machine| {
            attended(at, problem)
        });
        entries.push(entry.of(element));
        let p = problem.attention();
        if format == CacheFormat::F32 || element == Element::F16 {
            let entry =
                KernelEntry::new("kv_cache", "merge", merge_name(p), move |at: &Machine| {
                    attended(at, problem)
                });
            entries.push(entry.of(element));
        }
        let append = Append {
            layout: *problem.layout(),
            batch: 2,
            tokens: 3,
            table: 32,
            element,
        };
        if rules.len() < 2 {
            let entry = KernelEntry::new(
                "kv_cache",
                "append",
                append_name(&append),
                move |at: &Machine| appended(at, append),
            );
            entries.push(entry.of(element));
        }
    }
    entries
}
