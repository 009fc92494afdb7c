//! Sizes that lengths are filled up to.

use moebius::ErrorKind;
use moebius::pad::Buckets;

#[test]
fn sizes_waste_no_more_than_allowed() {
    for (first, last, waste, most) in [
        (1, 256, 0.15, 12),
        (64, 320, 0.15, 12),
        (1, 2048, 0.1, 12),
        (7, 7, 0.0, 1),
        (5, 14, 0.0, 10),
        (1, 100, 1.0, 3),
    ] {
        let buckets = Buckets::new(first..=last, waste, most).unwrap();
        let sizes = buckets.sizes();
        let wasted = |sizes: &[usize]| {
            let size = |length: usize| sizes.iter().find(|&&size| size >= length).unwrap();
            let filled: usize = (first..=last).map(|length| size(length) - length).sum();
            filled as f64 / (first..=last).sum::<usize>() as f64
        };
        assert!(wasted(sizes) <= waste && sizes.len() <= most, "{sizes:?}");
        assert_eq!(sizes.last(), Some(&last));
        for length in first..=last {
            let size = buckets.size(length).unwrap();
            assert!(size >= length && sizes.contains(&size), "{length}");
        }
        for length in [first - 1, last + 1] {
            let error = buckets.size(length).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Shape);
        }
    }
}

#[test]
fn what_few_sizes_cannot_do_is_refused() {
    let refused = |first, last, waste, most| {
        let error = Buckets::new(first..=last, waste, most).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        error.to_string()
    };
    assert_eq!(
        refused(1, 100, 0.05, 12),
        "waste: expected at least 0.0729 with 12 sizes, got 0.05"
    );
    for (first, last, waste, most) in [
        (0, 5, 1.0, 3),
        (6, 5, 1.0, 3),
        (1, 5, 1.0, 0),
        (1, 5, -0.1, 9),
        (1, 5, f64::NAN, 9),
    ] {
        assert!(refused(first, last, waste, most).contains("expected"));
    }
}
