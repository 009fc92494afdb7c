use super::{experts, relative_error};

#[test]
fn an_error_is_relative() {
    assert_eq!(relative_error(&[3.0, 4.5], &[3.0, 4.0]), 0.1);
    assert!(relative_error(&[f32::NAN], &[1.0]).is_nan());
}

#[test]
fn two_experts_share_a_token_by_their_weights() {
    let weights = [
        vec![0.0, 1.0, -1.0],
        vec![1.0, 2.0, 5.0],
        vec![1.0, 1.0, 1.0],
    ];
    let e = std::f64::consts::E;
    // relu: nothing passes a negative input.
    let y = experts([1, 1, 3, 2], &[1.0, -1.0], &weights).unwrap();
    assert!((y[0] - (2.0 * e + 1.0) / (e + 1.0)).abs() < 1e-12, "{y:?}");
    assert_eq!(y[1], 0.0);
}
