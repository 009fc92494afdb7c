use super::*;
use crate::attention::{Pattern, Problem, Rule, Rules, Sizes};
use crate::blocks::BlockFormat;
use crate::element::Element;
use crate::fp8::Fp8Format;
use crate::operation::{AttentionPass, TableGradients};
use crate::permute::RowsProblem;
use crate::scaling::{Fp8Scheme, Granularity};
use crate::{experts, grouped_gemm, routing, segment_attention};

/// Every name that a backward pass reads or writes is a tensor of its forward or the gradient of one.
#[test]
fn a_gradient_names_the_tensors_of_its_forward() {
    for (operation, beside) in operations() {
        let forward = operation.signature();
        let known: Vec<_> = forward.operands.iter().chain(&forward.results).collect();
        let known = |name: &str| beside.contains(&name) || known.iter().any(|t| t.name == name);
        for result in operation.differentiable() {
            let Some(Gradient::By { operation, names }) = operation.gradient(result, |_| true)
            else {
                panic!("no gradient of {result}");
            };
            let called = |name: &'static str| {
                let other = names.iter().find(|(its, _)| *its == name);
                other.map_or(name, |(_, forward)| *forward)
            };
            let backward = operation.signature();
            for operand in &backward.operands {
                let name = called(operand.name);
                let of_result = name.strip_prefix('d') == Some(result);
                assert!(of_result || known(name), "{}: {name}", backward.name);
            }
            for written in &backward.results {
                let of = called(written.name).strip_prefix('d').expect("a gradient");
                let of = forward.operands.iter().find(|t| t.name == of);
                let of = of.unwrap_or_else(|| panic!("{}: {}", backward.name, written.name));
                assert_eq!(of.shape, written.shape, "{}: {}", backward.name, of.name);
            }
        }
    }
}

/// Operations with gradients, each with the further tensors that its backward pass reads.
pub(in crate::operation) fn operations() -> Vec<(Operation, &'static [&'static str])> {
    let routing = routing::Problem::new(6, 4, 2).unwrap();
    let rows = RowsProblem::new(&routing, routing.slots(), 8, Element::F32).unwrap();
    let experts = experts::Problem {
        routing,
        hidden: 8,
        inter: 16,
        element: Element::F32,
        gated: true,
        activation: grouped_gemm::Activation::Silu,
        bias: true,
        capacity: None,
        row_bound: routing.slots(),
        dense: false,
    };
    let network = network(experts);
    let sort: &'static [_] = &["order", "offsets", "positions"];
    let logits = Routing::Logits {
        problem: routing,
        hidden: 8,
        element: Element::F32,
        backward: false,
    };
    let route = Routing::Route {
        problem: routing,
        mask: true,
        bias: true,
    };
    let combine = |weighted| Permute::Combine {
        problem: rows,
        weighted,
    };
    let keep = |problem, keep| Experts::Forward { problem, keep };
    let others: Vec<(Operation, &[_])> = vec![
        (logits.into(), &[]),
        (route.into(), &[]),
        (Permute::Gather(rows).into(), sort),
        (combine(true).into(), sort),
        (combine(false).into(), sort),
        (rows_of_sequences().into(), sort),
        (keep(experts, true).into(), &[]),
        (keep(experts, false).into(), &[]),
        (keep(network, true).into(), &[]),
        (keep(network, false).into(), &[]),
        (attention(&[], false).into(), &[]),
        (attention(&every_table(), true).into(), &[]),
    ];
    others.into_iter().chain(products(sort)).collect()
}

/// Products with each form of weights; `sort` names the tensors of a sort.
fn products(sort: &'static [&'static str]) -> [(Operation, &'static [&'static str]); 4] {
    let product = grouped_gemm::Problem::new(12, 4, 2, 8, 8).unwrap();
    let product = grouped_gemm::Problem {
        rows: grouped_gemm::Source::Sorted,
        bias: true,
        ..product
    };
    let sparse = grouped_gemm::Problem {
        stored: Stored::Sparse24,
        ..product
    };
    let coded = grouped_gemm::Problem {
        stored: Stored::Fp8(Fp8Scheme {
            format: Fp8Format::E4M3,
            granularity: Granularity::Row,
        }),
        ..product
    };
    let in_blocks = grouped_gemm::Problem {
        stored: Stored::Blocks(BlockFormat::Q8_0),
        k: 32,
        ..product
    };
    [
        (GroupedGemm::Linear(product).into(), sort),
        (GroupedGemm::Linear(sparse).into(), sort),
        (GroupedGemm::CodedLinear(coded).into(), &[]),
        (GroupedGemm::CodedLinear(in_blocks).into(), &[]),
    ]
}

/// One network for all tokens in place of a mixture.
fn network(experts: experts::Problem) -> experts::Problem {
    experts::Problem {
        routing: routing::Problem::new(6, 1, 1).unwrap(),
        row_bound: 6,
        dense: true,
        ..experts
    }
}

fn rows_of_sequences() -> SegmentAttention {
    let segments = segment_attention::Segments::new(12, 4, 2, 4).unwrap();
    SegmentAttention {
        problem: segment_attention::Problem::new(segments, 2, 4).unwrap(),
        backward: false,
    }
}

fn attention(rules: &[Rule], sinks: bool) -> Attention {
    let sizes = Sizes {
        batch: 2,
        heads: 4,
        kv_heads: 2,
        queries: 3,
        keys: 5,
        head_dim: 8,
        value_dim: 16,
    };
    let rules = Rules::new(rules.iter().copied()).unwrap();
    let problem = Problem::new(sizes).unwrap().with_rules(rules).unwrap();
    Attention {
        problem: problem.with_sinks(sinks),
        pass: AttentionPass::Forward,
    }
}

fn every_table() -> [Rule; 6] {
    let [batch, heads] = [true, false];
    let pattern = Pattern { batch, heads };
    [
        Rule::Documents,
        Rule::Blocks(2),
        Rule::Mask(pattern),
        Rule::Alibi,
        Rule::Bias(pattern),
        Rule::Relative(3),
    ]
}

#[test]
fn attention_returns_the_gradients_of_tables_that_want_one() {
    let forward = attention(&every_table(), true);
    let names = |result, wanted: &[&str]| {
        let gradient = Operation::from(forward).gradient(result, |name| wanted.contains(&name));
        let Some(Gradient::By { operation, .. }) = gradient else {
            panic!("no gradient of {result}");
        };
        operation.check().unwrap();
        let results = operation.signature().results;
        results.iter().map(|info| info.name).collect::<Vec<_>>()
    };
    assert_eq!(names("o", &["q", "sinks"]), ["dq", "dk", "dv", "dsinks"]);
    assert_eq!(names("lse", &["bias"]), ["dq", "dk", "dbias"]);
    let tables = TableGradients {
        bias: true,
        relative: false,
        sinks: false,
    };
    let pass = AttentionPass::Output(tables);
    let without = attention(&[], false);
    assert!(
        Operation::from(Attention { pass, ..without })
            .check()
            .is_err()
    );
}

#[test]
fn what_rounds_passes_its_gradient_and_what_encodes_has_none() {
    let matrix = crate::quantize::Problem::new(
        [1, 4, 4],
        Element::F32,
        Granularity::Tensor,
        Fp8Format::E4M3,
    );
    let matrix = matrix.unwrap();
    let faked = Operation::from(Quantize::FakeQuantize(matrix));
    assert_eq!(faked.gradient("y", |_| true), Some(Gradient::Same));
    let coded = Operation::from(Quantize::Quantize(matrix));
    assert_eq!(coded.gradient("codes", |_| true), None);
}
