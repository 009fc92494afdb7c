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
    assert!(timings([&mut first, &mut second]).is_err());
    assert_eq!(*order.borrow(), "ababab");
    assert!(timings_of(&mut [], |_: &mut ()| Ok(0.0)).is_ok_and(|timings| timings.is_empty()));
}

#[test]
fn half_of_the_repetitions_lie_within_the_quartiles() {
    let mut seconds: Vec<f64> = (0..20).rev().map(f64::from).collect();
    let timing = Timing::of(&mut seconds);
    assert_eq!((timing.seconds, timing.quartiles), (10.0, [5.0, 15.0]));
    let spread = timing.spread();
    assert_eq!((spread.runs, spread.q1_ms, spread.q3_ms), (20, 5e3, 15e3));
    let within = seconds.iter().filter(|s| (5.0..15.0).contains(*s)).count();
    assert_eq!(within, 10);
    assert_eq!(Timing::of(&mut []).runs, 0);
}
