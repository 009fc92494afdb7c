use super::{Problem, reference, reference_backward};
use crate::permute;

/// Six tokens in sequences of 3; tokens 0, 1, 2 and 4 go to expert 0, 3 to expert 1, 5 nowhere.
fn rows(causal: bool) -> (Problem, permute::Sorted) {
    let sort = permute::Problem::new(6, 2, 4).unwrap();
    let problem = Problem::new(sort, 1, 1, 3, causal).unwrap();
    (problem, permute::reference(&[0, 0, 0, 1, 0, 2], 2))
}

#[test]
fn a_row_sees_its_sequence_in_its_expert() {
    let x = [1.0, 2.0, 3.0, 5.0, 4.0, f64::NAN];
    let (problem, sorted) = rows(false);
    let out = reference(&problem, &sorted, &x).unwrap();
    let want = [
        [0.0, 1.0, 2.0],
        [1.0, 2.0, 3.0],
        [2.0, 3.0, 0.0],
        [0.0, 5.0, 0.0],
        [0.0, 4.0, 0.0],
        [0.0; 3],
    ];
    assert_eq!(out, want.concat());
    let (problem, sorted) = rows(true);
    let out = reference(&problem, &sorted, &x).unwrap();
    let want = [
        [0.0, 0.0, 1.0],
        [0.0, 1.0, 2.0],
        [1.0, 2.0, 3.0],
        [0.0, 0.0, 5.0],
        [0.0, 0.0, 4.0],
        [0.0; 3],
    ];
    assert_eq!(out, want.concat());
}

/// ⟨neighbours(x), d⟩ = ⟨x, backward(d)⟩.
#[test]
fn the_backward_pass_is_the_adjoint() {
    for causal in [false, true] {
        let (problem, sorted) = rows(causal);
        let x: Vec<f64> = (0..6).map(|i| f64::from(i * i + 1)).collect();
        let d: Vec<f64> = (0..18).map(|i| f64::from(i * 7 % 11) - 4.0).collect();
        let out = reference(&problem, &sorted, &x).unwrap();
        let dx = reference_backward(&problem, &sorted, &d).unwrap();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        assert_eq!(dot(&out, &d), dot(&x, &dx));
    }
}

#[test]
fn sizes_that_make_no_sense_are_shape_errors() {
    let sort = permute::Problem::new(6, 2, 4).unwrap();
    for (width, top_k, sequence) in [(0, 1, 3), (1, 0, 3), (1, 1, 0), (1 << 30, 1, 3)] {
        assert!(Problem::new(sort, width, top_k, sequence, false).is_err());
    }
}
