//! A token gets the same bits wherever it lies: at every place of a block of rows, and alone.

use crate::experts::problem;
use crate::experts_oracle::Batch;
use crate::gradients::backward;
use crate::run::{Host, f32s, floats, i32s, noise, run};
use moebius_xla::ElementType::{self, BF16, F16, F32};
use moebius_xla::custom::Call;
use moebius_xla::custom::experts::{Experts, Forward};
use moebius_xla::custom::linear::{Linear, LinearBackward};
use moebius_xla::custom::router::{Logits, LogitsBackward};

/// Batches: a token alone, and more than two blocks of it, of which the last is cut.
const TOKENS: [usize; 2] = [1, 300];

/// A sum of so many products is another one in the last rows of a block of 128 without AVX-512.
const LONG: usize = 300;

/// `tokens` rows, all the same.
fn same(element: ElementType, tokens: usize, width: usize, seed: u64) -> Host {
    floats(
        element,
        &[tokens, width],
        &noise(width, seed).repeat(tokens),
    )
}

/// Asserts that all rows of the same result are one row, in both batches.
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
    for (element, hidden, experts) in [
        (F32, LONG, 1),
        (F32, LONG, 3),
        (BF16, LONG, 8),
        (F32, 1, LONG),
        (F16, 8, LONG),
    ] {
        let logits = |tokens| Logits {
            tokens,
            hidden,
            experts,
        };
        let w = floats(element, &[experts, hidden], &noise(experts * hidden, 2));
        let what = format!("{element}, {hidden} columns, {experts} experts");
        alike(&what, |tokens| {
            let x = same(element, tokens, hidden, 1);
            run(&Call::Logits(logits(tokens)), &[x, w.clone()])
        });
        alike(&format!("dx, {what}"), |tokens| {
            let call = Call::LogitsBackward(LogitsBackward {
                logits: logits(tokens),
            });
            let x = same(element, tokens, hidden, 1);
            let dlogits = same(F32, tokens, experts, 3);
            run(&call, &[x, w.clone(), dlogits])[..1].to_vec()
        });
    }
}

/// All tokens choose the second of three experts.
fn batch(p: Experts, element: ElementType, tokens: usize) -> Batch {
    let p = Experts {
        tokens,
        row_bound: tokens,
        ..p
    };
    let mut batch = Batch::new(p, element, &vec![1; tokens]);
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
        let p = Experts {
            hidden,
            inter,
            gated,
            bias: gated,
            ..problem(1, 1, 3)
        };
        let what = format!("{element}, gated {gated}, {hidden} and {inter} columns");
        alike(&what, |tokens| {
            let batch = batch(p, element, tokens);
            let (experts, keep) = (batch.p, true);
            run(&Call::Experts(Forward { experts, keep }), &batch.inputs())
        });
        alike(&format!("gradients, {what}"), |tokens| {
            let dy = same(element, tokens, hidden, 9);
            backward(&batch(p, element, tokens), &dy, None, true, false)
        });
    }
}

#[test]
fn products_per_expert_and_their_gradients() {
    for (element, n, k) in [
        (F32, 8, LONG),
        (F32, LONG, 8),
        (F32, 1, LONG),
        (F32, LONG, 1),
        (F16, LONG, LONG),
    ] {
        let linear = |tokens| Linear {
            row_bound: tokens,
            experts: 3,
            n,
            k,
            bias: false,
            dense: false,
        };
        let w = floats(element, &[3, n, k], &noise(3 * n * k, 2));
        let offsets = |tokens| i32s(&[4], &[0, 0, tokens as i32, tokens as i32]);
        let what = format!("{element}, {k} to {n} columns");
        alike(&what, |tokens| {
            let x = same(element, tokens, k, 1);
            let inputs = [x, w.clone(), offsets(tokens)];
            run(&Call::Linear(linear(tokens)), &inputs)
        });
        alike(&format!("rows' gradient, {what}"), |tokens| {
            let call = Call::LinearBackward(LinearBackward {
                linear: linear(tokens),
                rows: true,
                w: false,
                dbias: false,
            });
            let [dy, x] = [(n, 3), (k, 1)].map(|(width, seed)| same(element, tokens, width, seed));
            run(&call, &[dy, x, w.clone(), offsets(tokens)])
        });
    }
}
