use super::*;
use crate::permute;

#[test]
fn reference_values() {
    let problem = Problem::new(4, 2, 2, 2).unwrap();
    // Token 0 goes to experts 1 and 0; token 1 goes to expert 1, and its second slot nowhere.
    let sorted = permute::reference(&[1, 0, 1, 2], 2);
    let got = reference(
        &problem,
        &sorted,
        &[1.0, 2.0, 3.0, 5.0],
        &[10.0, 1.0, 100.0, 7.0],
    );
    assert_eq!(got, [114.0, 12.0, 335.0, 0.0]);
}

#[test]
fn shapes_are_checked() {
    assert!(Problem::new(5, 2, 2, 2).is_err());
    assert!(Problem::new(4, 0, 2, 2).is_err());
    assert!(Problem::new(4, 2, 2, 1 << 30).is_err());
}
