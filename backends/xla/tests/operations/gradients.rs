//! Gradients of feed-forward experts.

use crate::batch::Batch;
use crate::experts::{VARIANTS, dealt, forward, network, problem};
use crate::run::{self, Host, floats, noise, run};
use moebius_ops::Experts;
use moebius_ops::experts::Problem;
use moebius_pjrt::ElementType::{BF16, F16, F32};

/// The gradients of a batch for dy, with what the forward kept, or without: an operation and its operands.
fn call(
    batch: &Batch,
    dy: &Host,
    pre: Option<Host>,
    [x, weights]: [bool; 2],
) -> (Experts, Vec<Host>) {
    let call = Experts::Backward {
        problem: batch.p,
        pre: pre.is_some(),
        x,
        weights,
    };
    let dy = [dy.clone()].into_iter();
    (call, dy.chain(batch.inputs()).chain(pre).collect())
}

pub(crate) fn backward(
    batch: &Batch,
    dy: &Host,
    pre: Option<Host>,
    x: bool,
    weights: bool,
) -> Vec<Host> {
    let (call, inputs) = call(batch, dy, pre, [x, weights]);
    run(call, &inputs)
}

fn check(batch: &Batch, tolerance: f64) {
    let p = &batch.p;
    let element = batch.x.ty.element;
    let shape = [p.routing.tokens(), p.hidden];
    let dy = floats(element, &shape, &noise(shape[0] * shape[1], 7));
    let pre = forward(batch, true).remove(1);
    for pre in [None, Some(pre)] {
        let (call, inputs) = call(batch, &dy, pre, [true, true]);
        let got = match element {
            F32 => run::check(call, &inputs, |_| tolerance),
            _ => run::check(call, &inputs, run::of_largest(tolerance)),
        };
        let of_weights = usize::from(!p.dense);
        assert_eq!(got.len(), of_weights + if p.bias { 5 } else { 3 });
        for (at, got) in got.iter().enumerate() {
            let of_weights = at == 1 && !p.dense;
            assert_eq!(got.ty.element, if of_weights { F32 } else { element });
        }
    }
}

#[test]
fn every_activation_plain_and_gated_with_and_without_biases() {
    let keys = dealt(60, &[20, 0, 33, 5]);
    for (activation, gated, bias) in VARIANTS {
        let p = Problem {
            activation,
            gated,
            bias,
            ..problem(30, 2, 4)
        };
        check(&Batch::new(p, F32, &keys), 5e-5);
    }
}

#[test]
fn every_load_around_the_edges_of_blocks() {
    let loads: [&[usize]; 5] = [
        &[143, 144, 145, 0, 1],
        &[600, 0, 0, 0, 0],
        &[0, 0, 0, 0, 599],
        &[0, 0, 0, 0, 0],
        &[0, 287, 0, 2, 0],
    ];
    for loads in loads {
        let p = Problem {
            bias: true,
            ..problem(300, 2, 5)
        };
        check(&Batch::new(p, F32, &dealt(600, loads)), 1e-4);
    }
    let p = Problem {
        row_bound: 101,
        ..problem(150, 2, 5)
    };
    check(&Batch::new(p, F32, &dealt(300, &[40, 0, 1, 20, 40])), 5e-5);
}

/// Around the edges of blocks, too.
#[test]
fn a_dense_network_has_no_sort() {
    for tokens in [1, 143, 144, 145, 300] {
        check(&Batch::new(network(tokens), F32, &[]), 1e-4);
    }
}

#[test]
fn half_precision() {
    let keys = dealt(60, &[20, 0, 33, 5]);
    for (element, tolerance) in [(F16, 2e-3), (BF16, 2e-2)] {
        let p = Problem {
            gated: true,
            bias: true,
            ..problem(30, 2, 4)
        };
        check(&Batch::new(p, element, &keys), tolerance);
    }
}

#[test]
fn only_what_is_needed_is_computed() {
    let batch = Batch::new(problem(30, 2, 4), F32, &dealt(60, &[20, 0, 33, 5]));
    let dy = floats(F32, &[30, 24], &noise(30 * 24, 7));
    let all = backward(&batch, &dy, None, true, true);
    let router = backward(&batch, &dy, None, false, false);
    assert_eq!(router, all[1..2]);
    assert_eq!(backward(&batch, &dy, None, true, false), all[..2]);
    assert_eq!(backward(&batch, &dy, None, false, true), all[1..]);
}

/// What past the last expert's rows lies in `pre`, and slots without expert, reach no gradient.
#[test]
fn tails_and_lost_slots_reach_nothing() {
    let mut batch = Batch::new(problem(30, 2, 4), F32, &dealt(60, &[20, 0, 33, 5]));
    let dy = floats(F32, &[30, 24], &noise(30 * 24, 7));
    let pre = forward(&batch, true).remove(1);
    let clean = backward(&batch, &dy, Some(pre.clone()), true, true);
    let mut values = pre.to_floats();
    values[58 * 20..].fill(f32::NAN);
    let pre = floats(F32, &[60, 20], &values);
    let mut weights = batch.weights.to_floats();
    let lost = (0..60).filter(|slot| batch.keys[*slot] == 4);
    lost.for_each(|slot| weights[slot] = f32::NAN);
    batch.weights = floats(F32, &[30, 2], &weights);
    assert_eq!(backward(&batch, &dy, Some(pre), true, true), clean);
}

#[test]
fn no_tokens() {
    let empty = Batch::new(problem(0, 2, 3), F32, &[]);
    let got = backward(&empty, &floats(F32, &[0, 24], &[]), None, true, true);
    assert_eq!(got[2].to_floats(), vec![0.0; 3 * 20 * 24]);
}
