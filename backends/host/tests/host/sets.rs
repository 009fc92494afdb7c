//! The names and the order of sets of vector instructions.

use moebius_host::Simd;

#[test]
fn names_are_read_and_others_are_not() {
    for set in Simd::ALL {
        assert_eq!(set.name().parse(), Ok(set));
    }
    let error = "avx".parse::<Simd>().map_err(|error| error.to_string());
    let said =
        "instruction set: expected avx512bf16, avx512, avx2, neon, simd128 or portable, got `avx`";
    assert_eq!(error, Err(said.to_owned()));
}

#[test]
fn the_widest_comes_first_and_plain_code_runs_everywhere() {
    let available = Simd::available();
    assert_eq!(available.first(), Some(&Simd::widest()));
    assert_eq!(available.last(), Some(&Simd::Portable));
    assert!(available.windows(2).all(|pair| pair[0] > pair[1]));
}
