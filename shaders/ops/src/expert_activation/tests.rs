use super::*;
use crate::permute;

const ALL: [Option<Activation>; 6] = [
    None,
    Some(Activation::Relu),
    Some(Activation::Gelu),
    Some(Activation::Silu),
    Some(Activation::Mish),
    Some(Activation::GeluTanh),
];

fn problem(gated: bool, activation: Option<Activation>) -> Problem {
    let problem = Problem::new(4, 2, 3).unwrap().with_row_bound(3).unwrap();
    problem.with_activation(activation, gated)
}

/// Values in ±2 that avoid 0, where relu has no derivative.
fn wave(len: usize, phase: f64) -> Vec<f64> {
    (0..len)
        .map(|i| 2.0 * (1.7 * i as f64 + phase).sin() + 0.01)
        .collect()
}

/// `reference_backward` returns the gradients of the loss Σ_s w_s ⟨d_s, hidden_s⟩.
#[test]
fn backward_matches_differences_of_the_loss() {
    // Slot 2 goes nowhere, and expert 0's slot comes last in slot order.
    let sorted = permute::reference(&[1, 1, 2, 0], 2);
    let weights = [0.3, -0.7, 0.9, 1.1];
    for gated in [false, true] {
        for activation in ALL {
            let problem = problem(gated, activation);
            let pre = wave(problem.pre_len(), 0.4);
            let d = wave(problem.hidden_len(), 1.9);
            let loss = |pre: &[f64], weights: &[f64]| -> f64 {
                let hidden = reference(&problem, &sorted, pre);
                let terms = hidden.iter().zip(&d).enumerate();
                terms
                    .map(|(i, (h, d))| weights[sorted.order[i / 3] as usize] * h * d)
                    .sum()
            };
            let got = reference_backward(&problem, &sorted, &weights, &pre, &d);
            let step = 1e-6;
            for i in 0..pre.len() {
                let (mut up, mut down) = (pre.clone(), pre.clone());
                up[i] += step;
                down[i] -= step;
                let slope = (loss(&up, &weights) - loss(&down, &weights)) / (2.0 * step);
                assert!((got.dpre[i] - slope).abs() < 1e-8, "{problem:?} at {i}");
            }
            for s in 0..weights.len() {
                let (mut up, mut down) = (weights, weights);
                up[s] += 0.5;
                down[s] -= 0.5;
                let slope = loss(&pre, &up) - loss(&pre, &down);
                assert!((got.dweights[s] - slope).abs() < 1e-12, "slot {s}");
            }
            let hidden = reference(&problem, &sorted, &pre);
            let weighted = weights[3] * hidden[1];
            assert!((got.weighted[1] - weighted).abs() < 1e-15, "{problem:?}");
        }
    }
}

#[test]
fn shapes_are_checked() {
    assert!(Problem::new(4, 0, 3).is_err());
    assert!(Problem::new(4, 2, 0).is_err());
    assert!(Problem::new(1 << 20, 2, 1 << 10).is_err());
    let problem = Problem::new(4, 2, 3).unwrap();
    assert!(problem.with_row_bound(5).is_err());
    assert!(problem.with_row_bound(0).is_err());
    assert!(Problem::new(0, 2, 3).unwrap().with_row_bound(0).is_ok());
}
