use super::*;

#[test]
fn the_middle_of_an_odd_count_is_the_median() {
    assert_eq!(middle(&mut [3.0, 1.0, 2.0]), 2.0);
    assert_eq!(middle(&mut []), 0.0);
}

#[test]
fn runs_take_turns_and_the_first_error_ends_them() {
    let order = std::cell::RefCell::new(String::new());
    let mut first = || {
        order.borrow_mut().push('a');
        Ok(())
    };
    let mut calls = 0;
    let mut second = || {
        order.borrow_mut().push('b');
        calls += 1;
        match calls {
            3 => Err(BenchError::Device("gone".into())),
            _ => Ok(()),
        }
    };
    assert!(medians([&mut first, &mut second]).is_err());
    assert_eq!(*order.borrow(), "ababab");
    assert!(medians_of(&mut [], |_: &mut ()| Ok(0.0)).is_ok_and(|medians| medians.is_empty()));
}
