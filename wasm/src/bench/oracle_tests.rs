use super::{Experts, relative_error};

#[test]
fn an_error_is_relative() {
    assert_eq!(relative_error([(3.0, 3.0), (4.5, 4.0)]), 0.1);
    assert!(relative_error([(f32::NAN, 1.0)]).is_nan());
}

#[test]
fn two_experts_share_a_token_by_their_weights() {
    let experts = Experts {
        hidden: 1,
        inter: 1,
        top_k: 2,
        router: vec![0.0, 1.0, -1.0],
        w_in: vec![1.0, 2.0, 5.0],
        w_out: vec![1.0, 1.0, 1.0],
    };
    let e = std::f64::consts::E;
    let y = experts.token(&[1.0])[0];
    assert!((y - (2.0 * e + 1.0) / (e + 1.0)).abs() < 1e-12, "{y}");
    // relu: nothing passes a negative input.
    assert_eq!(experts.token(&[-1.0]), [0.0]);
}
