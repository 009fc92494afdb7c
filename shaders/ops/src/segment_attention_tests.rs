use super::*;
use crate::permute;

/// Three sequences of three tokens, top-2 of 3 experts: expert 1 has rows of all three sequences, expert 0 one row of each of
/// two, and expert 2 none; the last slot goes nowhere.
fn sorted() -> Sorted {
    let keys = [1, 3, 0, 1, 1, 3, 1, 3, 1, 3, 0, 1, 1, 3, 1, 3, 1, 3];
    permute::reference(&keys, 3)
}

fn segments() -> Segments {
    let segments = Segments::new(18, 3, 2, 3).unwrap();
    segments.with_row_bound(12).unwrap()
}

#[test]
fn segments_are_runs_of_one_sequence() {
    let got = reference_segments(&segments(), &sorted());
    // Rows 0 and 1 belong to expert 0, rows 2 to 10 to expert 1, three of each sequence.
    let want = [
        [0, 1],
        [1, 2],
        [2, 5],
        [2, 5],
        [2, 5],
        [5, 8],
        [5, 8],
        [5, 8],
        [8, 11],
        [8, 11],
        [8, 11],
        [0, 0],
    ];
    assert_eq!(got, want.concat());
}

fn wave(len: usize, phase: f64) -> Vec<f64> {
    (0..len)
        .map(|i| 1.5 * (1.3 * i as f64 + phase).sin())
        .collect()
}

#[test]
fn one_row_attends_to_itself() {
    let problem = Problem::new(segments(), 2, 2).unwrap();
    let found = reference_segments(&segments(), &sorted());
    let [q, k, v] = [0.1, 0.7, 1.9].map(|phase| wave(problem.elements(), phase));
    let [o, lse] = reference(&problem, &found, [&q, &k, &v]);
    for i in 0..8 {
        assert!((o[i] - v[i]).abs() < 1e-15);
    }
    let scale = f64::from((1.0 / 2.0f64.sqrt()) as f32);
    let score = scale * (q[0] * k[0] + q[1] * k[1]);
    assert!((lse[0] - score).abs() < 1e-15);
    assert_eq!(o[44..], [0.0; 4], "a row without an expert");
    assert_eq!(lse[22..], [0.0; 2], "a row without an expert");
}

/// `reference_backward` returns the gradients of the loss ⟨d_o, o⟩.
#[test]
fn backward_matches_differences_of_the_loss() {
    for causal in [false, true] {
        let problem = Problem::new(segments(), 2, 3).unwrap().with_causal(causal);
        let found = reference_segments(&segments(), &sorted());
        let len = problem.elements();
        let d_o = wave(len, 2.3);
        let data = [0.1, 0.7, 1.9].map(|phase| wave(len, phase));
        let loss = |data: &[Vec<f64>; 3]| -> f64 {
            let [o, _] = reference(&problem, &found, data.each_ref().map(Vec::as_slice));
            o.iter().zip(&d_o).map(|(a, b)| a * b).sum()
        };
        let qkv = data.each_ref().map(Vec::as_slice);
        let got = reference_backward(&problem, &found, qkv, &d_o);
        for (which, gradient) in got.iter().enumerate() {
            for i in 0..len {
                let step = 1e-5;
                let (mut up, mut down) = (data.clone(), data.clone());
                up[which][i] += step;
                down[which][i] -= step;
                let slope = (loss(&up) - loss(&down)) / (2.0 * step);
                assert!((gradient[i] - slope).abs() < 1e-8, "{which} at {i}");
            }
        }
    }
}

#[test]
fn shapes_are_checked() {
    assert!(Segments::new(5, 3, 2, 3).is_err());
    assert!(Segments::new(6, 3, 2, 0).is_err());
    assert!(Segments::new(6, 3, 2, usize::MAX).is_ok());
    assert!(segments().with_row_bound(19).is_err());
    assert!(Problem::new(segments(), 0, 8).is_err());
    assert!(Problem::new(segments(), 1, 0).is_err());
    assert!(Problem::new(segments(), 1, 129).is_err());
}
