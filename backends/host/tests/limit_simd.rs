//! A program with a single test, because a process can be limited to a set of vector instructions only once.

use moebius_host::{Simd, SimdError, limit_simd, simd};

#[test]
fn a_process_is_held_to_what_is_asked_for_first() {
    let available = Simd::available();
    let foreign = Simd::ALL.into_iter().find(|set| !available.contains(set));
    let foreign = foreign.expect("no processor has all");
    let missing = SimdError::Missing {
        asked: foreign,
        available,
    };
    assert_eq!(limit_simd(foreign), Err(missing));
    assert_eq!(limit_simd(Simd::Portable), Ok(()));
    assert_eq!(simd(), Simd::Portable);
    assert_eq!(limit_simd(Simd::Portable), Ok(()));
    if Simd::widest() != Simd::Portable {
        let refused = limit_simd(Simd::widest());
        assert!(
            matches!(refused, Err(SimdError::InUse { .. })),
            "{refused:?}"
        );
    }
}
