//! The compiled variants of attention: every element type, each rule alone in f32, and rules together.

use super::{Problem, Variant, launch, launch_backward, name, plan};
use crate::emit::{KernelEntry, Machine, Planned, valid};
use moebius_ops::Element;
use moebius_ops::attention::{Pattern, Rule, Rules, Sizes};

const SIZES: Sizes = Sizes {
    batch: 2,
    heads: 8,
    kv_heads: 2,
    queries: 512,
    keys: 512,
    head_dim: 64,
    value_dim: 64,
};

/// The sizes for `rows`, the kernel of `tile` in another shape. Small heads keep the text, and the time to check it, short,
/// because each of eight queries has its own registers.
const SHORT: Sizes = Sizes {
    head_dim: 8,
    value_dim: 8,
    ..SIZES
};

/// Seven problems: without rules, causal, rules that change scores, rules that read tables, and a dropout.
fn problems(sizes: Sizes) -> [Problem; 7] {
    let problem = |rules: &[Rule]| {
        let rules = valid(Rules::new(rules.iter().copied()));
        valid(valid(Problem::new(sizes)).with_rules(rules))
    };
    let [f32, f16, bf16] = Element::ALL.map(|element| problem(&[]).with_element(element));
    let causal = problem(&[Rule::Causal]);
    let scores = problem(&[Rule::Alibi, Rule::Softcap(30.0), Rule::Window(256)]);
    let pattern = Pattern {
        batch: false,
        heads: true,
    };
    let tables = [
        Rule::Bias(pattern),
        Rule::Relative(16),
        Rule::Documents,
        Rule::Blocks(64),
        Rule::Mask(pattern),
    ];
    [
        f32,
        f16,
        bf16,
        causal,
        scores,
        problem(&tables).with_sinks(true),
        f32.with_dropout(true),
    ]
}

/// All problems but the first, in f16 instead of f32.
fn halves(all: [Problem; 7]) -> [Problem; 6] {
    let [_, rest @ ..] = all;
    rest.map(|p| match p.element() {
        Element::F32 => p.with_element(Element::F16),
        _ => p,
    })
}

fn forward(at: &Machine, problem: Problem) -> Planned {
    forward_by(at, problem, None)
}

fn forward_by(at: &Machine, problem: Problem, variant: Option<Variant>) -> Planned {
    at.launch(&[], plan(problem, variant, &at.capability), launch)
}

fn backward(at: &Machine, problem: Problem, through_lse: bool) -> Planned {
    let rules = problem.rules();
    let given = [
        ("dlse", through_lse),
        ("dbias", rules.bias().is_some()),
        ("drelative", rules.relative().is_some()),
        ("dsinks", problem.sinks()),
    ];
    at.launch(&given, plan(problem, None, &at.capability), launch_backward)
}

fn through_output(at: &Machine, problem: Problem) -> Planned {
    backward(at, problem, false)
}

fn through_lse(at: &Machine, problem: Problem) -> Planned {
    backward(at, problem, true)
}

/// Every variant, forward and backward, in the cases that compile to different code.
pub fn entries() -> Vec<KernelEntry> {
    let entry = |variant, name: String, p: Problem, launch: fn(&Machine, Problem) -> Planned| {
        let launch = move |at: &Machine| launch(at, p);
        KernelEntry::new("attention", variant, name, launch).of(p.element())
    };
    let of = |kernel: &str, p| name(&p, kernel);
    let all = problems(SIZES);
    let [f32, f16, bf16, _, _, tables, _] = all;
    // Only a processor's target compiles this variant; for other targets the entry records the refusal.
    let processor = |at: &Machine, p: Problem| forward_by(at, p, Some(Variant::Cpu));
    let table = entry("tables", "attention_table".to_owned(), tables, forward);
    let sinks = "attention_sink_gradient".to_owned();
    let mut entries = vec![table, entry("backward", sinks, tables, through_output)];
    let by_unit = |at: &Machine, p: Problem| forward_by(at, p, Some(Variant::Unit));
    let by_tile = |at: &Machine, p: Problem| forward_by(at, p, Some(Variant::Tile));
    let by_rows = |at: &Machine, p: Problem| forward_by(at, p, Some(Variant::Rows));
    let by_matrix = |at: &Machine, p: Problem| forward_by(at, p, Some(Variant::TensorCore));
    let by_matrices = halves(all).map(|p| {
        let name = of("attention_tensor_core", p);
        entry("tensor_core", name, p, by_matrix).proven(false)
    });
    entries.extend(by_matrices);
    entries.extend(all.map(|p| entry("unit", of("attention_unit", p), p, by_unit)));
    entries.extend(all.map(|p| entry("tile", of("attention_tile", p), p, by_tile)));
    entries.extend(problems(SHORT).map(|p| entry("tile", of("attention_rows", p), p, by_rows)));
    for kernel in ["attention_cpu", "attention_gradients_cpu"] {
        entries.extend(all.map(|p| entry("cpu", of(kernel, p), p, processor)));
    }
    for p in [f32, f16, bf16] {
        let name = format!("attention_statistics_unit_{}", p.element());
        entries.push(entry("backward", name, p, through_output));
    }
    let gradients = [
        "attention_query_gradient_unit",
        "attention_key_gradient_unit",
        "attention_value_gradient_unit",
    ];
    for kernel in gradients {
        entries.extend(all.map(|p| entry("unit", of(kernel, p), p, through_output)));
    }
    for kernel in ["attention_bias_gradient", "attention_relative_gradient"] {
        entries.push(entry(
            "backward",
            of(kernel, tables),
            tables,
            through_output,
        ));
    }
    let of_lse = [
        "attention_query_gradient_of_lse_unit",
        "attention_key_gradient_of_lse_unit",
    ];
    entries.extend(of_lse.map(|kernel| entry("unit", of(kernel, f32), f32, through_lse)));
    let name = format!("attention_statistics_of_lse_unit_{}", f32.element());
    entries.push(entry("backward", name, f32, through_lse));
    entries
}
