//! Logits, choices, their gradients, loads.

use crate::router_oracle::{gradient, route};
use crate::run::{Host, close, f32s, floats, i32s, i64s, noise, run};
use moebius_xla::ElementType::{self, BF16, F16, F32};
use moebius_xla::custom::Call;
use moebius_xla::custom::router::{
    Groups, Load, Logits, LogitsBackward, Route, RouteBackward, RouteOutput, Score,
};

const NAN: f32 = f32::NAN;
const INFINITY: f32 = f32::INFINITY;

fn problem(tokens: usize, experts: usize, top_k: usize) -> Route {
    Route {
        tokens,
        experts,
        top_k,
        score: Score::Softmax,
        renormalize: true,
        groups: None,
        scale: 1.0,
        mask: false,
        bias: false,
    }
}

/// Runs a choice and compares all of it with the oracle; returns indices and weights.
fn check(
    p: Route,
    logits: &[f32],
    mask: Option<&[i32]>,
    bias: Option<&[f32]>,
) -> (Vec<i32>, Vec<f32>) {
    let p = Route {
        mask: mask.is_some(),
        bias: bias.is_some(),
        ..p
    };
    let mut inputs = vec![f32s(&[p.tokens, p.experts], logits)];
    inputs.extend(mask.map(|mask| i32s(&[p.experts], mask)));
    inputs.extend(bias.map(|bias| f32s(&[p.experts], bias)));
    let got = run(&Call::Route(p), &inputs);
    let wide: Vec<f64> = logits.iter().map(|l| f64::from(*l)).collect();
    let want = route(&p, &wide, mask, bias);
    assert_eq!(got[0].to_ints(), want.indices, "{p:?}");
    for (at, want) in [&want.weights, &want.probs, &want.lse]
        .into_iter()
        .enumerate()
    {
        close(&format!("{p:?} {at}"), &got[at + 1].to_floats(), want, 2e-6);
    }
    (got[0].to_ints(), got[1].to_floats())
}

/// A choice, its mask and its bias.
type Variant = (Route, Option<Vec<i32>>, Option<Vec<f32>>);

/// Every score, normalised or not, with and without mask and bias; half of these with groups, so that
/// each goes with and without each other.
fn variants(tokens: usize) -> Vec<Variant> {
    let mask: Vec<i32> = (0..12).map(|e| i32::from(e != 2 && e != 7) * 5).collect();
    let bias: Vec<f32> = noise(12, 3);
    let mut variants = Vec::new();
    for bits in 0u32..16 {
        let on = |bit: u32| bits >> bit & 1 == 1;
        let p = Route {
            score: if on(0) {
                Score::Sigmoid
            } else {
                Score::Softmax
            },
            renormalize: on(1),
            groups: (bits.count_ones() % 2 == 1).then_some(Groups {
                count: 4,
                chosen: 2,
            }),
            scale: if on(1) { 2.5 } else { 1.0 },
            ..problem(tokens, 12, 3)
        };
        variants.push((p, on(2).then(|| mask.clone()), on(3).then(|| bias.clone())));
    }
    variants
}

#[test]
fn choices_are_those_of_the_oracle() {
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
    // Scores that saturate are equal, their logits aren't.
    let p = Route {
        score: Score::Sigmoid,
        ..problem(1, 3, 2)
    };
    assert_eq!(check(p, &[40.0, 50.0, 60.0], None, None).0, [2, 1]);
    // Four groups of the same sum, and within the first two equal keys.
    let groups = Some(Groups {
        count: 4,
        chosen: 1,
    });
    let p = Route {
        groups,
        ..problem(1, 8, 2)
    };
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
        let p = Route {
            score,
            renormalize: false,
            ..problem(2, 4, 4)
        };
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
    let groups = Some(Groups {
        count: 2,
        chosen: 1,
    });
    check(
        Route { groups, ..p },
        &[9.0, 9.0, 1.0, 2.0, 9.0, 8.0, 0.0, 0.0],
        Some(&[0, 0, 1, 1]),
        None,
    );
    let none = run(&Call::Route(problem(0, 4, 2)), &[f32s(&[0, 4], &[])]);
    assert_eq!(none[0].ty.shape, [0, 2]);
}

#[test]
fn sigmoids_far_below_zero_keep_their_digits() {
    let p = Route {
        score: Score::Sigmoid,
        renormalize: false,
        ..problem(1, 3, 3)
    };
    let (_, weights) = check(p, &[-80.0, -20.0, 90.0], None, None);
    for (got, logit) in weights.iter().zip([90.0f64, -20.0, -80.0]) {
        let want = 1.0 / (1.0 + (-logit).exp());
        assert!((f64::from(*got) / want - 1.0).abs() < 1e-5, "{got} {want}");
    }
    let (_, weights) = check(
        Route {
            renormalize: true,
            ..p
        },
        &[-100.0, -101.0, -300.0],
        None,
        None,
    );
    assert!((weights[0] - 0.731_058_6).abs() < 1e-5);
}

#[test]
fn gradients_are_those_of_finite_differences() {
    // No two keys of a token closer than the step.
    let logits: Vec<f32> = (0..24).map(|i| (i * 7 % 24) as f32 / 4.0 - 3.0).collect();
    let wide: Vec<f64> = logits.iter().map(|l| f64::from(*l)).collect();
    for (p, mask, bias) in variants(2) {
        let p = Route {
            mask: mask.is_some(),
            bias: bias.is_some(),
            ..p
        };
        let limits = (mask.as_deref(), bias.as_deref());
        let routed = route(&p, &wide, limits.0, limits.1);
        for of in [RouteOutput::Weights, RouteOutput::Probs, RouteOutput::Lse] {
            let incoming = noise(routed.output(of).len(), 9);
            let shape = match of {
                RouteOutput::Weights => vec![2, 3],
                RouteOutput::Probs => vec![2, 12],
                RouteOutput::Lse => vec![2],
            };
            let narrow =
                |values: &[f64]| -> Vec<f32> { values.iter().map(|v| *v as f32).collect() };
            let mut inputs = vec![f32s(&shape, &incoming), f32s(&[2, 12], &logits)];
            inputs.extend(mask.as_ref().map(|mask| i32s(&[12], mask)));
            inputs.extend([
                i32s(&[2, 3], &routed.indices),
                f32s(&[2, 3], &narrow(&routed.weights)),
                f32s(&[2, 12], &narrow(&routed.probs)),
                f32s(&[2], &narrow(&routed.lse)),
            ]);
            let call = Call::RouteBackward(RouteBackward { route: p, of });
            let got = run(&call, &inputs);
            let want = gradient(&p, of, &wide, limits, &incoming);
            close(&format!("{call:?}"), &got[0].to_floats(), &want, 1e-5);
        }
    }
}

#[test]
fn a_gradient_skips_what_it_cannot_reach() {
    // The second slot has no expert; its incoming NaN must not spread. Weights of a scale of 0 have none.
    for scale in [1.0, 0.0] {
        let route = Route {
            mask: true,
            scale,
            ..problem(1, 3, 2)
        };
        let call = Call::RouteBackward(RouteBackward {
            route,
            of: RouteOutput::Weights,
        });
        let inputs = [
            f32s(&[1, 2], &[2.0, NAN]),
            f32s(&[1, 3], &[0.0, 1.0, 2.0]),
            i32s(&[3], &[0, 1, 0]),
            i32s(&[1, 2], &[1, 3]),
            f32s(&[1, 2], &[scale, 0.0]),
            f32s(&[1, 3], &[0.0, 1.0, 0.0]),
            f32s(&[1], &[1.0]),
        ];
        assert_eq!(run(&call, &inputs)[0].to_floats(), [0.0; 3]);
    }
}

fn products(element: ElementType) {
    let (tokens, hidden, experts) = (9, 40, 5);
    let x = floats(element, &[tokens, hidden], &noise(tokens * hidden, 1));
    let w = floats(element, &[experts, hidden], &noise(experts * hidden, 2));
    let dlogits = f32s(&[tokens, experts], &noise(tokens * experts, 3));
    let dot = |a: &Host, b: &Host, at: &dyn Fn(usize) -> (usize, usize), depth: usize| -> f64 {
        let (a, b) = (a.to_floats(), b.to_floats());
        (0..depth)
            .map(|i| f64::from(a[at(i).0]) * f64::from(b[at(i).1]))
            .sum()
    };
    let matrix = |rows: usize, columns: usize, of: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
        (0..rows * columns)
            .map(|at| of(at / columns, at % columns))
            .collect()
    };
    let logits = Logits {
        tokens,
        hidden,
        experts,
    };
    let got = run(&Call::Logits(logits), &[x.clone(), w.clone()]);
    assert_eq!(got[0].ty.element, F32);
    let want = matrix(tokens, experts, &|t, e| {
        dot(&x, &w, &|h| (t * hidden + h, e * hidden + h), hidden)
    });
    close("logits", &got[0].to_floats(), &want, 1e-5);
    let call = Call::LogitsBackward(LogitsBackward { logits });
    let got = run(&call, &[x.clone(), w.clone(), dlogits.clone()]);
    let tolerance = if element == F32 { 1e-5 } else { 1e-2 };
    let want = matrix(tokens, hidden, &|t, h| {
        dot(
            &dlogits,
            &w,
            &|e| (t * experts + e, e * hidden + h),
            experts,
        )
    });
    close("dx", &got[0].to_floats(), &want, tolerance);
    let want = matrix(experts, hidden, &|e, h| {
        dot(&dlogits, &x, &|t| (t * experts + e, t * hidden + h), tokens)
    });
    close("dw", &got[1].to_floats(), &want, tolerance);
    assert!(got.iter().all(|gradient| gradient.ty.element == element));
}

#[test]
fn logits_and_their_gradients_in_every_type() {
    [F32, F16, BF16].into_iter().for_each(products);
}

#[test]
fn loads_are_exact_and_count_no_missing_expert() {
    // The last of the indices is E, and one is far beyond.
    let indices = [0, 1, 2, 2, 1, 3, 0, 0, 2, 1, i32::MAX, 4];
    let load = |groups| {
        Call::Load(Load {
            tokens: 6,
            top_k: 2,
            experts: 4,
            groups,
        })
    };
    let all = run(&load(1), &[i32s(&[6, 2], &indices)]);
    assert_eq!(all[0].to_ints(), [3, 3, 3, 1]);
    let three = run(&load(3), &[i64s(&[6, 2], &indices)]);
    assert_eq!(three[0].to_ints(), [1, 1, 2, 0, 2, 1, 0, 1, 0, 1, 1, 0]);
    assert_eq!(three[0].ty.shape, [3, 4]);
}

/// The logits of a token alone are those it has among others, to the last bit.
#[test]
fn logits_do_not_depend_on_the_batch() {
    let (hidden, experts) = (600, 3);
    let x = noise(300 * hidden, 1);
    let w = f32s(&[experts, hidden], &noise(experts * hidden, 2));
    let logits = |first: usize, tokens: usize| {
        let call = Call::Logits(Logits {
            tokens,
            hidden,
            experts,
        });
        let x = f32s(&[tokens, hidden], &x[first * hidden..][..tokens * hidden]);
        run(&call, &[x, w.clone()])[0].to_floats()
    };
    let all = logits(0, 300);
    for (first, tokens) in [(0, 1), (299, 1), (17, 2), (30, 64), (100, 130)] {
        let want = &all[first * experts..(first + tokens) * experts];
        assert_eq!(logits(first, tokens), want, "{tokens} tokens from {first}");
    }
}
