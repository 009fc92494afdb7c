use super::*;

/// Logits whose sigmoids are 1/2, 1/5, 4/5 and 1/3.
const LOGITS: [f32; 4] = [0.0, -1.386_294_4, 1.386_294_4, -std::f32::consts::LN_2];

fn sigmoid(top_k: usize) -> Problem {
    let problem = Problem::new(1, 4, top_k).unwrap();
    problem.with_score(Score::Sigmoid, true)
}

fn close(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    let far = got.iter().zip(want).find(|(a, b)| (*a - *b).abs() > 1e-6);
    assert!(far.is_none(), "{got:?} {want:?}");
}

#[test]
fn a_bias_moves_the_choice_and_not_the_weights() {
    let bias = [0.0, 0.7, 0.0, 0.0];
    let routed = reference_with_bias(&sigmoid(2), &LOGITS, None, Some(&bias));
    assert_eq!(routed.indices, [1, 2]);
    close(&routed.weights, &[0.2, 0.8]);
    close(&routed.probs, &[0.5, 0.2, 0.8, 1.0 / 3.0]);
}

#[test]
fn groups_go_by_their_two_best() {
    // Group scores: 1/2 + 1/5 against 4/5 + 1/3.
    let groups = |chosen| {
        Some(Groups {
            count: 2,
            chosen,
            best: 2,
        })
    };
    let one = sigmoid(2).with_groups(groups(1)).unwrap();
    assert_eq!(reference(&one, &LOGITS, None).indices, [2, 3]);
    // With its best expert masked, the second group scores 1/3.
    let mask = [true, true, false, true];
    let routed = reference(&one.with_scale(2.0).unwrap(), &LOGITS, Some(&mask));
    assert_eq!(routed.indices, [0, 1]);
    close(&routed.weights, &[10.0 / 7.0, 4.0 / 7.0]);
    let both = sigmoid(3).with_groups(groups(2)).unwrap();
    assert_eq!(reference(&both, &LOGITS, None).indices, [2, 0, 3]);
}

/// The first group has the best expert, 9/10 of 9/10 and 1/10, the second the better two, 7/10 and 6/10.
#[test]
fn groups_may_go_by_their_best_alone() {
    let logits = [9.0_f32.ln(), -9.0_f32.ln(), 0.847_297_9, 1.5_f32.ln()];
    for (best, chosen) in [(1, [0, 1]), (2, [2, 3])] {
        let groups = Groups {
            count: 2,
            chosen: 1,
            best,
        };
        let problem = sigmoid(2).with_groups(Some(groups)).unwrap();
        let routed = reference(&problem, &logits, None);
        assert_eq!(routed.indices, chosen, "{best}");
    }
}

#[test]
fn logsumexp_of_the_available() {
    let problem = Problem::new(1, 8, 1).unwrap();
    let routed = reference(&problem, &[0.0; 8], None);
    close(&routed.lse, &[2.079_441_541_679_835_7]);
    let half: Vec<bool> = (0..8).map(|e| e < 4).collect();
    let routed = reference(&problem, &[0.0; 8], Some(&half));
    close(&routed.lse, &[1.386_294_361_119_890_6]);
    let mut logits = [0.0; 8];
    logits[0] = f32::NAN;
    let routed = reference(&problem, &logits, Some(&half));
    assert!(routed.probs[..4].iter().all(|p| p.is_nan()));
    assert_eq!(routed.probs[4..], [0.0; 4]);
    let none = reference(&problem, &[0.0; 8], Some(&[false; 8]));
    assert_eq!(none.lse, [f64::NEG_INFINITY]);
    assert_eq!((none.indices[0], none.weights[0]), (8, 0.0));
}

#[test]
fn options_are_checked() {
    let problem = Problem::new(4, 12, 4).unwrap();
    for (count, chosen) in [(0, 1), (5, 1), (4, 0), (4, 5), (4, 1), (24, 24)] {
        let groups = Some(Groups {
            count,
            chosen,
            best: 2,
        });
        assert!(problem.with_groups(groups).is_err(), "{count} {chosen}");
    }
    let two = Some(Groups {
        count: 4,
        chosen: 2,
        best: 2,
    });
    assert!(problem.with_groups(two).is_ok());
    let single = Some(Groups {
        count: 12,
        chosen: 4,
        best: 2,
    });
    assert!(problem.with_groups(single).is_ok());
    assert!(problem.with_scale(f32::NAN).is_err());
    assert!(problem.with_scale(f32::INFINITY).is_err());
}

const EXPERTS: usize = 8;

const TOP_K: usize = 3;

/// A step that f32 adds to the logits exactly, and that is too small to change a choice.
const STEP: f32 = 1.0 / 256.0;

/// Two tokens whose logits differ by at least 1/8.
fn spread_logits() -> Vec<f32> {
    let order = [3, 9, 14, 1, 7, 12, 5, 10, 2, 13, 6, 15, 0, 4, 11, 8];
    order.map(|i| i as f32 / 8.0 - 1.0).to_vec()
}

/// The forward's output that `of` names.
fn output(of: TopkGradient, routed: &Routed) -> &[f64] {
    match of {
        TopkGradient::Weights => &routed.weights,
        TopkGradient::Probs => &routed.probs,
        TopkGradient::Lse => &routed.lse,
    }
}

fn check_gradients(problem: &Problem, mask: Option<&[bool]>, bias: Option<&[f32]>) {
    let logits = spread_logits();
    let routed = reference_with_bias(problem, &logits, mask, bias);
    for of in [
        TopkGradient::Weights,
        TopkGradient::Probs,
        TopkGradient::Lse,
    ] {
        let outputs = output(of, &routed).len();
        let gradient: Vec<f64> = (0..outputs).map(|i| (i as f64 * 0.7).sin()).collect();
        let loss = |logits: &[f32]| -> f64 {
            let routed = reference_with_bias(problem, logits, mask, bias);
            let terms = output(of, &routed).iter().zip(&gradient);
            terms.map(|(value, d)| value * d).sum()
        };
        let got = topk_backward_reference(problem, of, &logits, mask, &routed, &gradient);
        for (i, got) in got.iter().enumerate() {
            let mut moved = logits.clone();
            moved[i] += STEP;
            let up = loss(&moved);
            moved[i] -= 2.0 * STEP;
            let want = (up - loss(&moved)) / (2.0 * f64::from(STEP));
            // The central difference errs by STEP²/6 times the third derivative.
            assert!(
                (got - want).abs() < 1e-5,
                "{problem:?} {of:?} {i}: {got} {want}"
            );
        }
    }
}

#[test]
fn reference_agrees_with_finite_differences() {
    let mask: Vec<bool> = (0..EXPERTS).map(|e| e != 1 && e != 4).collect();
    let bias: Vec<f32> = (0..EXPERTS).map(|e| (e % 3) as f32 / 4.0).collect();
    let groups = Groups {
        count: 4,
        chosen: 2,
        best: 2,
    };
    for score in [Score::Softmax, Score::Sigmoid] {
        for renormalize in [true, false] {
            let problem = Problem::new(2, EXPERTS, TOP_K)
                .unwrap()
                .with_score(score, renormalize);
            check_gradients(&problem, None, None);
            let problem = problem.with_scale(2.5).unwrap();
            check_gradients(&problem, Some(&mask), None);
            check_gradients(&problem, None, Some(&bias));
            let problem = problem.with_groups(Some(groups)).unwrap();
            check_gradients(&problem, Some(&mask), Some(&bias));
        }
    }
}

#[test]
fn logits_by_hand() {
    let logits = logits_reference(&[1.0, 2.0, -3.0, 0.5], &[2.0, 1.0, 0.0, 4.0], 2);
    assert_eq!(logits, [4.0, 8.0, -5.5, 2.0]);
}

/// The logits are linear in x and in w, so Σ dl·l = Σ dx·x = Σ dw·w.
#[test]
fn gradients_of_logits_are_their_adjoint() {
    let values = |n: usize, seed: f32| -> Vec<f32> {
        (0..n).map(|i| ((i as f32 + seed) * 0.7).sin()).collect()
    };
    let (dlogits, x, w) = (values(12, 1.0), values(20, 2.0), values(15, 3.0));
    let (dx, dw) = logits_backward_reference(&dlogits, &x, &w, 5);
    let dot =
        |a: &[f64], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| a * f64::from(*b)).sum() };
    let want = dot(&logits_reference(&x, &w, 5), &dlogits);
    assert!((dot(&dx, &x) - want).abs() < 1e-12);
    assert!((dot(&dw, &w) - want).abs() < 1e-12);
}
