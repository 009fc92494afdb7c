use super::*;
use safetensors::Dtype;

fn floats(got: &[f32], want: &[f32], tolerance: Tolerance) -> OutputReport {
    let bytes: Vec<u8> = want.iter().flat_map(|v| v.to_le_bytes()).collect();
    let shape = [want.len()];
    let view = TensorView {
        name: "out.y",
        dtype: Dtype::F32,
        shape: &shape,
        bytes: &bytes,
    };
    let got = Produced {
        name: "y",
        shape: vec![got.len()],
        values: Values::Float(got.to_vec()),
    };
    compare(&got, &view, tolerance).expect("both are floats")
}

#[test]
fn relative_l2_is_the_quotient_of_the_norms() {
    let r = floats(&[3.0, 4.5], &[3.0, 4.0], Tolerance::RelL2(0.1));
    assert_eq!((r.max_abs, r.rel_l2, r.verdict), (0.5, 0.1, Verdict::Pass));
    assert_eq!(
        floats(&[3.0, 4.5], &[3.0, 4.0], Tolerance::RelL2(0.09)).verdict,
        Verdict::Fail
    );
}

#[test]
fn zero_against_zero_passes_and_against_anything_else_fails() {
    let r = floats(&[0.0, 0.0], &[0.0, -0.0], Tolerance::RelL2(0.0));
    assert_eq!((r.rel_l2, r.verdict), (0.0, Verdict::Pass));
    let r = floats(&[1e-30], &[0.0], Tolerance::RelL2(1e9));
    assert_eq!((r.rel_l2, r.verdict), (f64::INFINITY, Verdict::Fail));
    assert_eq!(
        floats(&[], &[], Tolerance::RelL2(0.0)).verdict,
        Verdict::Pass
    );
}

#[test]
fn nan_and_infinity_must_be_in_the_same_places() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    for tolerance in [Tolerance::Exact, Tolerance::RelL2(1e-3)] {
        let verdict = |got: &[f32], want: &[f32]| floats(got, want, tolerance).verdict;
        assert_eq!(verdict(&[nan, inf, 1.0], &[-nan, inf, 1.0]), Verdict::Pass);
        assert_eq!(verdict(&[nan, 1.0], &[2.0, 1.0]), Verdict::Fail);
        assert_eq!(verdict(&[2.0, 1.0], &[nan, 1.0]), Verdict::Fail);
        assert_eq!(verdict(&[inf], &[-inf]), Verdict::Fail);
        assert_eq!(verdict(&[f32::MAX], &[inf]), Verdict::Fail);
    }
}

#[test]
fn exact_counts_mismatches_and_tells_the_sign_of_zero() {
    let r = floats(&[1.0, 0.0, 3.0], &[1.0, -0.0, 4.0], Tolerance::Exact);
    assert_eq!(
        (r.mismatches, r.first_mismatch, r.verdict),
        (Some(2), Some(1), Verdict::Fail)
    );
}

#[test]
fn another_shape_fails_without_figures() {
    let r = floats(&[1.0], &[1.0, 1.0], Tolerance::RelL2(1.0));
    assert_eq!(r.verdict, Verdict::Fail);
    assert!(r.rel_l2.is_nan() && r.shapes.is_some());
}

#[test]
fn integers_are_not_compared_with_floats() {
    let bytes = 1.0_f32.to_le_bytes();
    let view = TensorView {
        name: "out.i",
        dtype: Dtype::F32,
        shape: &[1],
        bytes: &bytes,
    };
    let got = Produced {
        name: "i",
        shape: vec![1],
        values: Values::Int(vec![1]),
    };
    assert!(matches!(
        compare(&got, &view, Tolerance::Exact),
        Err(CompareError::Kind { .. })
    ));
}

#[test]
fn integers_beyond_f64_are_still_told_apart() {
    let bytes = (i64::MAX - 1).to_le_bytes();
    let view = TensorView {
        name: "out.i",
        dtype: Dtype::I64,
        shape: &[1],
        bytes: &bytes,
    };
    let got = Produced {
        name: "i",
        shape: vec![1],
        values: Values::Int(vec![i64::MAX]),
    };
    let r = compare(&got, &view, Tolerance::Exact).expect("both are integers");
    assert_eq!(
        (r.mismatches, r.max_abs, r.verdict),
        (Some(1), 1.0, Verdict::Fail)
    );
}
