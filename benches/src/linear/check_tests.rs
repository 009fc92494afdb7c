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
    let error = |y: &[f32]| oracle.float_error(&x, &weights, y).expect("sound sizes");
    assert_eq!(error(&y), 0.0);
    let mut wrong = y;
    wrong[5] = 2.5;
    assert!(error(&wrong) > 0.5);
    assert_eq!(error(&y[..5]), f64::INFINITY);
}

#[test]
fn activations_have_a_scale_for_each_row() {
    let x = [448.0, 1.0, 0.0, 896.0];
    let read = |source| activations(source, &x, 2).ok();
    let same = Some(HostTensor::of_f32(&x));
    assert_eq!(read(Activations::Float), same);
    assert_eq!(read(Activations::Dynamic(Granularity::Row)), same);
    assert_eq!(read(Activations::Dynamic(Granularity::Tensor)), None);
    assert_eq!(read(Activations::Static), None);
}
