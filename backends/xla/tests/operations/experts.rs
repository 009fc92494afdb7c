//! Tests of feed-forward experts and their gradients.

use crate::run::{self, Host, element, f32s, floats, noise, run, words};
use moebius_ops::experts::Problem;
use moebius_ops::grouped_gemm::Activation;
use moebius_ops::permute::{self, Sorted};
use moebius_ops::{Element, Experts, routing};
use moebius_pjrt::ElementType::{self, BF16, F16, F32};

pub(crate) fn problem(tokens: usize, top_k: usize, experts: usize) -> Problem {
    Problem {
        routing: routing::Problem::new(tokens, experts, top_k).unwrap(),
        hidden: 24,
        inter: 20,
        element: Element::F32,
        gated: false,
        activation: Activation::Silu,
        bias: false,
        capacity: None,
        row_bound: tokens * top_k,
        dense: false,
    }
}

/// A dense network, i.e. one expert for all tokens, with a gate and biases.
pub(crate) fn network(tokens: usize) -> Problem {
    Problem {
        gated: true,
        bias: true,
        dense: true,
        ..problem(tokens, 1, 1)
    }
}

/// Assigns slots to experts so that expert e has `loads[e]` of them; the rest have none.
pub(crate) fn dealt(slots: usize, loads: &[usize]) -> Vec<usize> {
    let of = loads
        .iter()
        .enumerate()
        .flat_map(|(e, load)| vec![e; *load]);
    let mut keys: Vec<usize> = of.collect();
    assert!(keys.len() <= slots);
    keys.resize(slots, loads.len());
    // Spread the experts over the tokens: 89 has no common factor with the numbers of slots in these tests.
    (0..slots).map(|slot| keys[slot * 89 % slots]).collect()
}

/// The experts of 60 slots; some slots have none.
fn keys() -> Vec<usize> {
    dealt(60, &[20, 0, 33, 5])
}

/// Every activation, some gated, some with biases.
fn variants() -> impl Iterator<Item = Problem> {
    let variants = [
        (Activation::Relu, false, true),
        (Activation::Relu, true, false),
        (Activation::Gelu, false, false),
        (Activation::Silu, true, true),
        (Activation::Mish, false, true),
        (Activation::Mish, true, false),
        (Activation::GeluTanh, true, false),
        (Activation::Clamped, true, true),
    ];
    variants
        .into_iter()
        .map(|(activation, gated, bias)| Problem {
            activation,
            gated,
            bias,
            ..problem(30, 2, 4)
        })
}

/// Sorts the slots by `keys`, the expert of each; a key of `experts` or more is a slot without an expert.
pub(crate) fn sorted(keys: &[usize], experts: usize) -> Sorted {
    let keys: Vec<u32> = keys.iter().map(|key| (*key).min(experts) as u32).collect();
    permute::reference(&keys, experts)
}

/// A batch and its experts' weights, rounded to their type.
pub(crate) struct Batch {
    pub(crate) p: Problem,
    keys: Vec<usize>,
    pub(crate) x: Host,
    pub(crate) weights: Host,
    stacks: Vec<Host>,
}

impl Batch {
    pub(crate) fn new(p: Problem, of: ElementType, keys: &[usize]) -> Self {
        let p = Problem {
            element: element(of),
            ..p
        };
        let (t, k, e) = (p.routing.tokens(), p.routing.top_k(), p.routing.experts());
        let (h, f, columns) = (p.hidden, p.inter, p.columns_in());
        let numbers = |shape: &[usize], seed: u64, scale: f32| {
            let values = noise(shape.iter().product(), seed);
            let values: Vec<f32> = values.iter().map(|v| v * scale).collect();
            floats(of, shape, &values)
        };
        let mut stacks = vec![
            numbers(&[e, columns, h], 2, 0.5),
            numbers(&[e, h, f], 3, 0.5),
        ];
        if p.bias {
            stacks.extend([numbers(&[e, columns], 4, 1.0), numbers(&[e, h], 5, 1.0)]);
        }
        Self {
            p,
            keys: keys.to_vec(),
            x: numbers(&[t, h], 1, 2.0),
            weights: f32s(&[t, k], &noise(t * k, 6)),
            stacks,
        }
    }

    pub(crate) fn inputs(&self) -> Vec<Host> {
        if self.p.dense {
            return [std::slice::from_ref(&self.x), &self.stacks].concat();
        }
        let sorted = sorted(&self.keys, self.p.routing.experts());
        let mut inputs = vec![
            self.x.clone(),
            self.weights.clone(),
            words(&[sorted.order.len()], &sorted.order),
            words(&[sorted.offsets.len()], &sorted.offsets),
            words(&[sorted.positions.len()], &sorted.positions),
        ];
        inputs.extend(self.stacks.iter().cloned());
        inputs
    }
}

/// The problem `p` for `tokens` tokens.
pub(crate) fn resized(p: Problem, tokens: usize) -> Problem {
    let (experts, top_k) = (p.routing.experts(), p.routing.top_k());
    let routing = routing::Problem::new(tokens, experts, top_k).unwrap();
    Problem {
        routing,
        row_bound: routing.slots(),
        ..p
    }
}

fn forward(batch: &Batch, keep: bool) -> Vec<Host> {
    let problem = batch.p;
    run(Experts::Forward { problem, keep }, &batch.inputs())
}

fn check(batch: &Batch, tolerance: f64) {
    for keep in [false, true] {
        let problem = batch.p;
        let forward = Experts::Forward { problem, keep };
        let got = run::check(forward, &batch.inputs(), |_| tolerance);
        let same = |host: &Host| host.ty.element == batch.x.ty.element;
        assert!(got.iter().all(same));
    }
}

/// The backward pass of a batch for dy, as an operation and its operands, with or without the kept first product.
pub(crate) fn call(
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

fn check_gradients(batch: &Batch, tolerance: f64) {
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
    for p in variants() {
        let batch = Batch::new(p, F32, &keys());
        check(&batch, 2e-5);
        check_gradients(&batch, 5e-5);
    }
}

#[test]
fn half_precision_comes_and_goes_and_sums_are_f32() {
    for (element, forward, backward) in [(F16, 4e-3, 2e-3), (BF16, 3e-2, 2e-2)] {
        for gated in [false, true] {
            let p = Problem {
                gated,
                bias: true,
                ..problem(30, 2, 4)
            };
            let batch = Batch::new(p, element, &keys());
            check(&batch, forward);
            if gated {
                check_gradients(&batch, backward);
            }
        }
    }
}

/// Blocks have 96 rows, or 144 if gradients are summed: loads around these sizes, all to one expert, none at all.
#[test]
fn every_load_around_the_edges_of_blocks() {
    let loads: [&[usize]; 8] = [
        &[95, 96, 97, 0, 1],
        &[288, 0, 0, 0, 289],
        &[600, 0, 0, 0, 0],
        &[0, 0, 0, 0, 600],
        &[1, 1, 1, 1, 1],
        &[0, 0, 0, 0, 0],
        &[0, 287, 0, 2, 0],
        &[100, 90, 0, 80, 70],
    ];
    let p = problem(300, 2, 5);
    for loads in loads {
        check(&Batch::new(p, F32, &dealt(600, loads)), 2e-5);
    }
    let loads: [&[usize]; 5] = [
        &[143, 144, 145, 0, 1],
        &[600, 0, 0, 0, 0],
        &[0, 0, 0, 0, 599],
        &[0, 0, 0, 0, 0],
        &[0, 287, 0, 2, 0],
    ];
    let p = Problem { bias: true, ..p };
    for loads in loads {
        check_gradients(&Batch::new(p, F32, &dealt(600, loads)), 1e-4);
    }
}

#[test]
fn one_token_one_expert_and_many_experts() {
    check(&Batch::new(problem(1, 1, 1), F32, &[0]), 2e-5);
    check(&Batch::new(problem(1, 2, 64), F32, &[63, 5]), 2e-5);
    check(
        &Batch::new(problem(4, 3, 3), F32, &[2, 1, 0, 0, 1, 2, 1, 2, 0, 2, 0, 1]),
        2e-5,
    );
}

/// The numbers of tokens are around the edges of blocks, too.
#[test]
fn a_dense_network_has_no_sort() {
    for tokens in [1, 95, 96, 97, 300] {
        check(&Batch::new(network(tokens), F32, &[]), 2e-5);
    }
    for tokens in [1, 143, 144, 145, 300] {
        check_gradients(&Batch::new(network(tokens), F32, &[]), 1e-4);
    }
}

#[test]
fn rows_may_be_fewer_than_slots() {
    let p = Problem {
        row_bound: 101,
        bias: true,
        ..problem(150, 2, 5)
    };
    let keys = dealt(300, &[40, 0, 1, 20, 40]);
    check(&Batch::new(p, F32, &keys), 2e-5);
    check(&Batch::new(p, F32, &dealt(300, &[3, 0, 1, 0, 0])), 2e-5);
    let p = Problem { bias: false, ..p };
    check_gradients(&Batch::new(p, F32, &keys), 5e-5);
}

#[test]
fn a_token_of_nan_stays_alone_and_slots_without_expert_add_nothing() {
    let mut batch = Batch::new(problem(30, 2, 4), F32, &keys());
    let clean = forward(&batch, false)[0].to_floats();
    let (hidden, token) = (batch.p.hidden, 7);
    let mut x = batch.x.to_floats();
    x[token * hidden] = f32::NAN;
    batch.x = floats(F32, &[30, hidden], &x);
    let lost: Vec<usize> = (0..60).filter(|slot| batch.keys[*slot] == 4).collect();
    let mut weights = batch.weights.to_floats();
    lost.iter().for_each(|slot| weights[*slot] = f32::NAN);
    batch.weights = floats(F32, &[30, 2], &weights);
    let got = forward(&batch, false)[0].to_floats();
    for (at, (got, clean)) in got.iter().zip(&clean).enumerate() {
        let alone = at / hidden == token;
        assert!(
            if alone {
                got.is_nan()
            } else {
                got.to_bits() == clean.to_bits()
            },
            "{at}"
        );
    }
}

#[test]
fn no_tokens_and_nothing_sorted() {
    let empty = Batch::new(problem(0, 2, 3), F32, &[]);
    assert_eq!(forward(&empty, true)[0].ty.shape, [0, 24]);
    let got = backward(&empty, &floats(F32, &[0, 24], &[]), None, true, true);
    assert_eq!(got[2].to_floats(), vec![0.0; 3 * 20 * 24]);
}

#[test]
fn equal_inputs_give_equal_bits() {
    let keys = dealt(300, &[63, 64, 65, 0, 1]);
    let batch = Batch::new(problem(150, 2, 5), F32, &keys);
    assert_eq!(forward(&batch, true), forward(&batch, true));
}

/// A token's output depends on the token alone: neither on its rows' places in blocks nor on the rest of the batch.
#[test]
fn a_token_has_the_same_output_in_another_batch() {
    let p = Problem {
        hidden: 200,
        inter: 600,
        gated: true,
        ..problem(300, 2, 5)
    };
    let keys = dealt(600, &[63, 140, 65, 7, 270]);
    let all = Batch::new(p, F32, &keys);
    let y = forward(&all, false)[0].to_floats();
    // Every `step`-th token from the first on, backwards if the step is negative.
    for (first, step, tokens) in [
        (0, 1, 1),
        (299, 1, 1),
        (17, 1, 2),
        (5, 2, 100),
        (299, -1, 300),
    ] {
        let chosen: Vec<usize> = (0..tokens).map(|t| (first + step * t) as usize).collect();
        let rows = |values: &[f32], width: usize| -> Vec<f32> {
            let rows = chosen
                .iter()
                .flat_map(|t| &values[t * width..(t + 1) * width]);
            rows.copied().collect()
        };
        let count = chosen.len();
        let mut part = Batch::new(resized(p, count), F32, &keys[..2 * count]);
        part.keys = chosen
            .iter()
            .flat_map(|t| [keys[2 * t], keys[2 * t + 1]])
            .collect();
        part.x = floats(F32, &[count, 200], &rows(&all.x.to_floats(), 200));
        part.weights = floats(F32, &[count, 2], &rows(&all.weights.to_floats(), 2));
        let got = forward(&part, false)[0].to_floats();
        assert!(got == rows(&y, 200), "{tokens} tokens from {first}");
    }
}

#[test]
fn only_what_is_needed_is_computed() {
    let batch = Batch::new(problem(30, 2, 4), F32, &keys());
    let dy = floats(F32, &[30, 24], &noise(30 * 24, 7));
    let all = backward(&batch, &dy, None, true, true);
    let router = backward(&batch, &dy, None, false, false);
    assert_eq!(router, all[1..2]);
    assert_eq!(backward(&batch, &dy, None, true, false), all[..2]);
    assert_eq!(backward(&batch, &dy, None, false, true), all[1..]);
}

/// Rows of `pre` past the last expert's, and slots without an expert, affect no gradient.
#[test]
fn tails_and_lost_slots_reach_nothing() {
    let mut batch = Batch::new(problem(30, 2, 4), F32, &keys());
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
