//! Tests that a token gets the same bits wherever it lies: at every place of a block of rows, and alone.

use crate::experts::{Batch, backward, problem, resized};
use crate::run::{Host, element, f32s, floats, i32s, noise, run};
use moebius_ops::experts::Problem;
use moebius_ops::grouped_gemm::{self, Source};
use moebius_ops::{Experts, GroupedGemm, Routing, routing};
use moebius_pjrt::ElementType::{self, BF16, F16, F32};

/// The sizes of batches: a token alone, and more than two blocks of it, the last of them partial.
const TOKENS: [usize; 2] = [1, 300];

/// The length of sums. Without AVX-512, sums of this length differ in the last rows of a block of 128.
const LONG: usize = 300;

/// `tokens` identical rows.
fn same(element: ElementType, tokens: usize, width: usize, seed: u64) -> Host {
    floats(
        element,
        &[tokens, width],
        &noise(width, seed).repeat(tokens),
    )
}

/// Asserts that in both batches all rows of a result have the same bits.
fn alike(what: &str, of: impl Fn(usize) -> Vec<Host>) {
    let batches = TOKENS.map(of);
    for (at, alone) in batches[0].iter().enumerate() {
        assert!(alone.bytes.iter().any(|byte| *byte != 0), "{what}: zeros");
        for (row, bytes) in batches[1][at].bytes.chunks(alone.bytes.len()).enumerate() {
            assert!(bytes == alone.bytes, "{what}: result {at}, row {row}");
        }
    }
}

#[test]
fn router_logits_and_their_gradients() {
    for (of, hidden, experts) in [
        (F32, LONG, 1),
        (F32, LONG, 3),
        (BF16, LONG, 8),
        (F32, 1, LONG),
        (F16, 8, LONG),
    ] {
        let element = element(of);
        let problem = |tokens| routing::Problem::new(tokens, experts, 1).unwrap();
        let w = floats(of, &[experts, hidden], &noise(experts * hidden, 2));
        let what = format!("{of}, {hidden} columns, {experts} experts");
        alike(&what, |tokens| {
            let logits = Routing::Logits {
                problem: problem(tokens),
                hidden,
                element,
                backward: false,
            };
            let x = same(of, tokens, hidden, 1);
            run(logits, &[x, w.clone()])
        });
        alike(&format!("dx, {what}"), |tokens| {
            let backward = Routing::Logits {
                problem: problem(tokens),
                hidden,
                element,
                backward: true,
            };
            let x = same(of, tokens, hidden, 1);
            let dlogits = same(F32, tokens, experts, 3);
            run(backward, &[x, w.clone(), dlogits])[..1].to_vec()
        });
    }
}

/// A batch in which all tokens choose the second of three experts.
fn batch(p: Problem, element: ElementType, tokens: usize) -> Batch {
    let mut batch = Batch::new(resized(p, tokens), element, &vec![1; tokens]);
    batch.x = same(element, tokens, p.hidden, 1);
    batch.weights = f32s(&[tokens, 1], &vec![0.7; tokens]);
    batch
}

#[test]
fn experts_and_their_gradients() {
    for (element, gated, hidden, inter) in [
        (F32, true, LONG, 8),
        (F32, true, 8, LONG),
        (F32, false, LONG, 1),
        (F32, false, 1, LONG),
        (BF16, false, LONG, 8),
        (BF16, true, 8, LONG),
    ] {
        let p = Problem {
            hidden,
            inter,
            gated,
            bias: gated,
            ..problem(1, 1, 3)
        };
        let what = format!("{element}, gated {gated}, {hidden} and {inter} columns");
        alike(&what, |tokens| {
            let batch = batch(p, element, tokens);
            let (problem, keep) = (batch.p, true);
            run(Experts::Forward { problem, keep }, &batch.inputs())
        });
        alike(&format!("gradients, {what}"), |tokens| {
            let dy = same(element, tokens, hidden, 9);
            backward(&batch(p, element, tokens), &dy, None, true, false)
        });
    }
}

#[test]
fn products_per_expert_and_their_gradients() {
    for (of, n, k) in [
        (F32, 8, LONG),
        (F32, LONG, 8),
        (F32, 1, LONG),
        (F32, LONG, 1),
        (F16, LONG, LONG),
    ] {
        let linear = |tokens| grouped_gemm::Problem {
            element: element(of),
            rows: Source::Sorted,
            ..grouped_gemm::Problem::new(tokens, 3, 1, n, k).unwrap()
        };
        let w = floats(of, &[3, n, k], &noise(3 * n * k, 2));
        let offsets = |tokens| i32s(&[4], &[0, 0, tokens as i32, tokens as i32]);
        let what = format!("{of}, {k} to {n} columns");
        alike(&what, |tokens| {
            let x = same(of, tokens, k, 1);
            let inputs = [x, w.clone(), offsets(tokens)];
            run(GroupedGemm::Linear(linear(tokens)), &inputs)
        });
        alike(&format!("rows' gradient, {what}"), |tokens| {
            let call = GroupedGemm::LinearBackward {
                problem: linear(tokens),
                rows: true,
                w: false,
                bias: false,
            };
            let [dy, x] = [(n, 3), (k, 1)].map(|(width, seed)| same(of, tokens, width, seed));
            run(call, &[dy, x, w.clone(), offsets(tokens)])
        });
    }
}
