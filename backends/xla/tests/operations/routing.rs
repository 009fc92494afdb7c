//! Tests of logits, choices, their gradients, and loads.

use crate::run::{self, Host, element, f32s, floats, i32s, i64s, noise, run};
use moebius_ops::Routing;
use moebius_ops::routing::{Groups, LoadProblem, Problem, Score, TopkGradient};
use moebius_pjrt::ElementType::{self, BF16, F16, F32};

const NAN: f32 = f32::NAN;
const INFINITY: f32 = f32::INFINITY;

fn problem(tokens: usize, experts: usize, top_k: usize) -> Problem {
    Problem::new(tokens, experts, top_k).unwrap()
}

fn grouped(p: Problem, count: usize, chosen: usize) -> Problem {
    p.with_groups(Some(Groups {
        count,
        chosen,
        best: 2,
    }))
    .unwrap()
}

fn route(problem: Problem, mask: bool, bias: bool) -> Routing {
    Routing::Route {
        problem,
        mask,
        bias,
    }
}

/// Runs a choice and compares it with the reference; returns indices and weights.
fn check(
    p: Problem,
    logits: &[f32],
    mask: Option<&[i32]>,
    bias: Option<&[f32]>,
) -> (Vec<i32>, Vec<f32>) {
    let mut inputs = vec![f32s(&[p.tokens(), p.experts()], logits)];
    inputs.extend(mask.map(|mask| i32s(&[p.experts()], mask)));
    inputs.extend(bias.map(|bias| f32s(&[p.experts()], bias)));
    let got = run::check(route(p, mask.is_some(), bias.is_some()), &inputs, |_| 2e-6);
    (got[0].to_ints(), got[1].to_floats())
}

/// A choice, with its mask and its bias if there are any.
type Variant = (Problem, Option<Vec<i32>>, Option<Vec<f32>>);

/// Every score, normalised or not, with and without mask and bias. Half of the variants have groups, so that each two
/// options occur together and apart.
fn variants(tokens: usize) -> Vec<Variant> {
    let mask: Vec<i32> = (0..12).map(|e| i32::from(e != 2 && e != 7) * 5).collect();
    let bias: Vec<f32> = noise(12, 3);
    let mut variants = Vec::new();
    for bits in 0u32..16 {
        let on = |bit: u32| bits >> bit & 1 == 1;
        let score = if on(0) {
            Score::Sigmoid
        } else {
            Score::Softmax
        };
        let mut p = problem(tokens, 12, 3).with_score(score, on(1));
        if bits.count_ones() % 2 == 1 {
            p = grouped(p, 4, 2);
        }
        let p = p.with_scale(if on(1) { 2.5 } else { 1.0 }).unwrap();
        variants.push((p, on(2).then(|| mask.clone()), on(3).then(|| bias.clone())));
    }
    variants
}

#[test]
fn choices_are_those_of_the_reference() {
    let logits: Vec<f32> = noise(33 * 12, 1).iter().map(|l| 4.0 * l).collect();
    for (p, mask, bias) in variants(33) {
        check(p, &logits, mask.as_deref(), bias.as_deref());
    }
}

#[test]
fn all_experts_of_many_and_one_of_one() {
    check(problem(5, 70, 70), &noise(350, 2), None, None);
    check(problem(3, 1, 1), &[0.5, -7.0, 100.0], None, None);
}

#[test]
fn ties_go_to_the_lowest_index() {
    let (indices, _) = check(problem(2, 6, 4), &[1.0; 12], None, None);
    assert_eq!(indices, [0, 1, 2, 3, 0, 1, 2, 3]);
    let row = [-1.0, -0.0, 0.0, -0.0, 0.0, -2.0];
    let (indices, _) = check(problem(1, 6, 5), &row, None, None);
    assert_eq!(indices, [1, 2, 3, 4, 0]);
    // Saturated scores are equal, but their logits differ.
    let p = problem(1, 3, 2).with_score(Score::Sigmoid, true);
    assert_eq!(check(p, &[40.0, 50.0, 60.0], None, None).0, [2, 1]);
    // Four groups of the same sum, and equal keys within the first.
    let p = grouped(problem(1, 8, 2), 4, 1);
    assert_eq!(check(p, &[0.25; 8], None, None).0, [0, 1]);
}

#[test]
fn nan_ranks_last_and_poisons_its_token_alone() {
    let rows = [NAN, 1.0, 2.0, NAN, 0.0, 1.0, 2.0, 3.0];
    let (indices, weights) = check(problem(2, 4, 2), &rows, None, None);
    assert_eq!(indices, [2, 1, 3, 2]);
    assert!(
        weights.iter().all(|w| w.is_finite()),
        "chosen numbers alone make the weights"
    );
    let (indices, weights) = check(problem(2, 4, 3), &rows, None, None);
    assert_eq!(indices, [2, 1, 0, 3, 2, 1]);
    assert!(weights[0].is_nan() && weights[3].is_finite());
    for score in [Score::Softmax, Score::Sigmoid] {
        let p = problem(2, 4, 4).with_score(score, false);
        check(p, &rows, None, None);
        check(p, &rows, Some(&[1, 1, 1, 0]), None);
    }
}

#[test]
fn nobody_available_and_infinities() {
    let p = problem(2, 4, 2);
    let (indices, weights) = check(p, &noise(8, 5), Some(&[0; 4]), None);
    assert_eq!((indices, weights), (vec![4; 4], vec![0.0; 4]));
    let (indices, _) = check(p, &noise(8, 5), Some(&[0, 0, -1, 0]), None);
    assert_eq!(indices, [2, 4, 2, 4]);
    check(
        p,
        &[
            -INFINITY, -INFINITY, 1.0, 0.5, -INFINITY, 3.0, -INFINITY, -INFINITY,
        ],
        None,
        None,
    );
    check(p, &[-INFINITY; 8], None, None);
    // A group without an available expert isn't chosen.
    check(
        grouped(p, 2, 1),
        &[9.0, 9.0, 1.0, 2.0, 9.0, 8.0, 0.0, 0.0],
        Some(&[0, 0, 1, 1]),
        None,
    );
    let none = run(route(problem(0, 4, 2), false, false), &[f32s(&[0, 4], &[])]);
    assert_eq!(none[0].ty.shape, [0, 2]);
}

#[test]
fn sigmoids_far_below_zero_keep_their_digits() {
    let p = problem(1, 3, 3).with_score(Score::Sigmoid, false);
    let (_, weights) = check(p, &[-80.0, -20.0, 90.0], None, None);
    for (got, logit) in weights.iter().zip([90.0f64, -20.0, -80.0]) {
        let want = 1.0 / (1.0 + (-logit).exp());
        assert!((f64::from(*got) / want - 1.0).abs() < 1e-5, "{got} {want}");
    }
    let (_, weights) = check(
        p.with_score(Score::Sigmoid, true),
        &[-100.0, -101.0, -300.0],
        None,
        None,
    );
    assert!((weights[0] - 0.731_058_6).abs() < 1e-5);
}

#[test]
fn gradients_are_those_of_the_reference() {
    let logits: Vec<f32> = (0..24).map(|i| (i * 7 % 24) as f32 / 4.0 - 3.0).collect();
    let logits = f32s(&[2, 12], &logits);
    for (p, mask, bias) in variants(2) {
        let mask = mask.map(|mask| i32s(&[12], &mask));
        let bias = bias.map(|bias| f32s(&[12], &bias));
        let forward = route(p, mask.is_some(), bias.is_some());
        let first = [logits.clone()].into_iter();
        let inputs: Vec<Host> = first.chain(mask.clone()).chain(bias).collect();
        let routed = run(forward, &inputs);
        for (of, shape) in [
            (TopkGradient::Weights, vec![2, 3]),
            (TopkGradient::Probs, vec![2, 12]),
            (TopkGradient::Lse, vec![2]),
        ] {
            let incoming = f32s(&shape, &noise(shape.iter().product(), 9));
            let first = [incoming, logits.clone()].into_iter();
            let inputs: Vec<Host> = first.chain(mask.clone()).chain(routed.clone()).collect();
            let call = Routing::RouteBackward {
                problem: p,
                mask: mask.is_some(),
                of,
            };
            run::check(call, &inputs, |_| 1e-5);
        }
    }
}

#[test]
fn a_gradient_skips_what_it_cannot_reach() {
    // The second slot has no expert; its incoming NaN must not spread. With a scale of 0, weights have no gradient.
    for scale in [1.0, 0.0] {
        let call = Routing::RouteBackward {
            problem: problem(1, 3, 2).with_scale(scale).unwrap(),
            mask: true,
            of: TopkGradient::Weights,
        };
        let inputs = [
            f32s(&[1, 2], &[2.0, NAN]),
            f32s(&[1, 3], &[0.0, 1.0, 2.0]),
            i32s(&[3], &[0, 1, 0]),
            i32s(&[1, 2], &[1, 3]),
            f32s(&[1, 2], &[scale, 0.0]),
            f32s(&[1, 3], &[0.0, 1.0, 0.0]),
            f32s(&[1], &[1.0]),
        ];
        assert_eq!(run(call, &inputs)[0].to_floats(), [0.0; 3]);
    }
}

fn products(of: ElementType) {
    let (tokens, hidden, experts) = (9, 40, 5);
    let (problem, element) = (problem(tokens, experts, 1), element(of));
    let x = floats(of, &[tokens, hidden], &noise(tokens * hidden, 1));
    let w = floats(of, &[experts, hidden], &noise(experts * hidden, 2));
    let dlogits = f32s(&[tokens, experts], &noise(tokens * experts, 3));
    let logits = |backward| Routing::Logits {
        problem,
        hidden,
        element,
        backward,
    };
    let got = run::check(logits(false), &[x.clone(), w.clone()], |_| 1e-5);
    assert_eq!(got[0].ty.element, F32);
    let tolerance = if of == F32 { 1e-5 } else { 1e-2 };
    let got = run::check(logits(true), &[x, w, dlogits], |_| tolerance);
    assert!(got.iter().all(|gradient| gradient.ty.element == of));
}

#[test]
fn logits_and_their_gradients_in_every_type() {
    [F32, F16, BF16].into_iter().for_each(products);
}

#[test]
fn loads_are_exact_and_count_no_missing_expert() {
    // The last index is E, and one is far beyond.
    let indices = [0, 1, 2, 2, 1, 3, 0, 0, 2, 1, i32::MAX, 4];
    let load = |groups| Routing::Load(LoadProblem::new(problem(6, 4, 2), groups).unwrap());
    let all = run(load(1), &[i32s(&[6, 2], &indices)]);
    assert_eq!(all[0].to_ints(), [3, 3, 3, 1]);
    let three = run(load(3), &[i64s(&[6, 2], &indices)]);
    assert_eq!(three[0].to_ints(), [1, 1, 2, 0, 2, 1, 0, 1, 0, 1, 1, 0]);
    assert_eq!(three[0].ty.shape, [3, 4]);
}

/// The logits of a token alone equal those among other tokens to the last bit.
#[test]
fn logits_do_not_depend_on_the_batch() {
    let (hidden, experts) = (600, 3);
    let x = noise(300 * hidden, 1);
    let w = f32s(&[experts, hidden], &noise(experts * hidden, 2));
    let logits = |first: usize, tokens: usize| {
        let call = Routing::Logits {
            problem: problem(tokens, experts, 1),
            hidden,
            element: element(F32),
            backward: false,
        };
        let x = f32s(&[tokens, hidden], &x[first * hidden..][..tokens * hidden]);
        run(call, &[x, w.clone()])[0].to_floats()
    };
    let all = logits(0, 300);
    for (first, tokens) in [(0, 1), (299, 1), (17, 2), (30, 64), (100, 130)] {
        let want = &all[first * experts..(first + tokens) * experts];
        assert_eq!(logits(first, tokens), want, "{tokens} tokens from {first}");
    }
}
