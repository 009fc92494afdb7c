use super::*;
use crate::attention::{self, Rule, Rules, Sizes};
use crate::element::Element;
use crate::kv_cache::{CacheFormat, Layout};
use crate::operation::TableGradients;
use crate::{experts, grouped_gemm, routing};

fn costs(operation: impl Into<Operation>) -> (Option<u64>, Option<u64>) {
    let operation = operation.into();
    (operation.bytes(), operation.flops())
}

#[test]
fn products_read_the_weights_of_as_many_experts_as_there_are_rows() {
    // 3 rows of 4 times 8 matrices of 5 × 4, of which 3 are read; offsets of 9 words.
    let problem = grouped_gemm::Problem::new(3, 8, 3, 5, 4).unwrap();
    let problem = grouped_gemm::Problem {
        rows: grouped_gemm::Source::Sorted,
        ..problem
    };
    let forward = 4 * (3 * 4 + 3 * 5 * 4 + 9 + 3 * 5);
    let flops = 2 * 3 * 5 * 4;
    let linear = GroupedGemm::Linear(problem);
    assert_eq!(costs(linear), (Some(forward), Some(flops)));
    let backward = |rows, w| GroupedGemm::LinearBackward {
        problem,
        rows,
        w,
        bias: false,
    };
    assert_eq!(costs(backward(true, true)).1, Some(2 * flops));
    assert_eq!(costs(backward(false, true)).1, Some(flops));
    // The gradient of W is written for all experts.
    let of_w = 4 * (3 * 5 + 3 * 4 + 3 * 5 * 4 + 9 + 8 * 5 * 4);
    assert_eq!(costs(backward(false, true)).0, Some(of_w));
}

#[test]
fn gradients_of_experts_are_twice_the_forward() {
    let routing = routing::Problem::new(6, 4, 2).unwrap();
    let plain = experts::Problem::new(routing, 3, 5);
    for problem in [
        plain,
        experts::Problem {
            gated: true,
            ..plain
        },
    ] {
        let backward = |x, weights| Experts::Backward {
            problem,
            pre: true,
            x,
            weights,
        };
        let forward = problem.flops();
        let keep = false;
        let of_forward = costs(Experts::Forward { problem, keep }).1;
        assert_eq!(of_forward, Some(forward));
        assert_eq!(costs(backward(true, true)).1, Some(2 * forward));
        assert_eq!(costs(backward(true, false)).1, Some(forward));
    }
}

#[test]
fn attention_counts_the_pairs_that_its_rules_show() {
    let sizes = Sizes {
        batch: 2,
        heads: 4,
        kv_heads: 2,
        queries: 3,
        keys: 3,
        head_dim: 8,
        value_dim: 16,
    };
    let rules = Rules::new([Rule::Causal]).unwrap();
    let problem = attention::Problem::new(sizes).unwrap();
    let problem = problem.with_rules(rules).unwrap();
    assert_eq!(problem.pairs(), 2 * 4 * (1 + 2 + 3));
    let attention = |pass| costs(Attention { problem, pass });
    let flops = 2 * 48 * (8 + 16);
    // q, k, v, o and a word for each row of q.
    let bytes = 4 * (24 * 8 + 12 * 8 + 12 * 16 + 24 * 16 + 24);
    let forward = attention(AttentionPass::Forward);
    assert_eq!(forward, (Some(bytes), Some(flops)));
    let none = TableGradients {
        bias: false,
        relative: false,
        sinks: false,
    };
    let backward = attention(AttentionPass::Output(none));
    assert_eq!(backward.1, Some(2 * flops));
}

#[test]
fn a_cache_is_written_where_tokens_are_appended() {
    let layout = Layout::new([100, 16], 2, [8, 16], CacheFormat::F16).unwrap();
    let append = Append {
        layout,
        batch: 3,
        tokens: 1,
        table: 4,
        element: Element::F32,
    };
    // k and v in f32, a table of 3 × 4 words, spans of 3 × 2 words; 24 values in f16 for each token and head.
    let bytes = 4 * (3 * 2 * (8 + 16) + 3 * 4 + 3 * 2) + 2 * 3 * 2 * (8 + 16);
    assert_eq!(costs(KvCache::Append(append)), (Some(bytes), None));
}

#[test]
fn the_choice_of_experts_has_no_products() {
    let problem = routing::Problem::new(6, 4, 2).unwrap();
    let route = Routing::Route {
        problem,
        mask: false,
        bias: false,
    };
    // Logits and probabilities 6 × 4, indices and weights 6 × 2, and 6 sums.
    let bytes = 4 * (2 * 24 + 2 * 12 + 6);
    assert_eq!(costs(route), (Some(bytes), None));
    let logits = Routing::Logits {
        problem,
        hidden: 5,
        element: Element::F32,
        backward: false,
    };
    let bytes = 4 * (6 * 5 + 4 * 5 + 6 * 4);
    assert_eq!(costs(logits), (Some(bytes), Some(2 * 6 * 4 * 5)));
}
