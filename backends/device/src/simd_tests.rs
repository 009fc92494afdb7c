use super::*;

#[test]
fn names_are_read_and_others_are_not() {
    for set in Simd::ALL {
        assert_eq!(set.name().parse(), Ok(set));
    }
    let error = "avx".parse::<Simd>().map_err(|error| error.to_string());
    let said = "instruction set: expected avx512, avx2, neon, simd128 or portable, got `avx`";
    assert_eq!(error, Err(said.to_owned()));
}

#[test]
fn the_widest_comes_first_and_plain_code_runs_everywhere() {
    let available = Simd::available();
    assert_eq!(available.first(), Some(&Simd::widest()));
    assert_eq!(available.last(), Some(&Simd::Portable));
    assert!(available.windows(2).all(|pair| pair[0] > pair[1]));
}

/// One test: what a process is held to is decided once.
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
