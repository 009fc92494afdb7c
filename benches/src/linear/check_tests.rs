use super::*;

#[test]
fn one_wrong_output_is_seen() {
    let oracle = Oracle {
        n: 3,
        k: 2,
        rows: vec![0, 1],
        columns: vec![0, 2],
    };
    let (x, weights) = ([1.0, 2.0, 3.0, 4.0], [1.0, 0.0, 9.0, 9.0, 0.5, -1.0]);
    let y = [1.0, 27.0, -1.5, 3.0, 63.0, -2.5];
    assert_eq!(oracle.float_error(&x, &weights, &y), 0.0);
    let mut wrong = y;
    wrong[5] = 2.5;
    assert!(oracle.float_error(&x, &weights, &wrong) > 0.5);
    assert_eq!(oracle.float_error(&x, &weights, &y[..5]), f64::INFINITY);
}

#[test]
fn rounding_is_relative_to_what_was_rounded() {
    assert_eq!(distance(&[3.0, 5.0], &[3.0, 4.0]), 0.2);
    assert_eq!(distance(&[3.0, 4.0], &[3.0, 4.0]), 0.0);
}

#[test]
fn activations_have_a_scale_for_each_row() {
    let x = vec![448.0, 1.0, 0.0, 896.0];
    let read = |source| activations(source, x.clone(), 2).ok();
    let same = Some(vec![448.0, 1.0, 0.0, 896.0]);
    assert_eq!(read(Activations::Float), same);
    assert_eq!(read(Activations::Dynamic(Granularity::Row)), same);
    assert_eq!(read(Activations::Dynamic(Granularity::Tensor)), None);
    assert_eq!(read(Activations::Static), None);
}
