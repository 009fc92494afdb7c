//! Sizes that lengths are filled up to.

use moebius::ErrorKind;
use moebius::pad::{Buckets, is_needed, last_rows};

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

#[test]
fn parts_are_full_but_for_a_little_at_the_end() {
    let buckets = Buckets::doubling(8, 200).unwrap();
    assert_eq!(buckets.sizes(), [8, 16, 32, 64, 128, 200]);
    for length in 1..1000 {
        let parts = buckets.parts(length);
        let (all, last) = (parts.iter().sum::<usize>(), *parts.last().unwrap());
        assert!(all >= length && all - last < length, "{length}: {parts:?}");
        assert!(all - length <= length / 8 || last == 8, "{length}");
        assert!(
            parts.iter().all(|size| buckets.sizes().contains(size)),
            "{length}"
        );
    }
    assert!(buckets.parts(0).is_empty());
    // To fill 100 up to 128 would take more than an eighth; 190 to 200 and 50 of 450 to 64 take less.
    assert_eq!(buckets.parts(100), [64, 32, 8]);
    assert_eq!(buckets.parts(190), [200]);
    assert_eq!(buckets.parts(450), [200, 200, 64]);
    assert_eq!(Buckets::doubling(8, 3).unwrap().sizes(), [3]);
    for (first, most, said) in [(0, 9, "first size"), (9, 0, "largest size")] {
        let error = Buckets::doubling(first, most).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn last_rows_are_those_before_what_fills_up() {
    // Sequences of 3, 8, 1 and no rows of 8.
    let rows = last_rows(&[3, 8, 1, 0], 8, 2);
    assert_eq!(rows, [1, 2, 14, 15, 16, 16, 24, 24]);
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    assert!(!is_needed(&device));
}
