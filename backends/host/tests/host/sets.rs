//! The names and the order of sets of vector instructions.

use moebius_host::{Simd, limit_simd};
use std::env;
use std::process::Command;

/// Names the set that [`narrower_sets_pass_the_tests_of_products_and_caches`] holds a process to.
const HELD: &str = "MOEBIUS_TEST_ROLE";

/// Holds this process to a narrower set where the variable names one. Each test of products, caches and casts calls it first.
pub(crate) fn held() {
    if let Ok(set) = env::var(HELD) {
        limit_simd(set.parse().unwrap()).unwrap();
    }
}

#[test]
fn narrower_sets_pass_the_tests_of_products_and_caches() {
    for set in &Simd::available()[1..] {
        let mut tests = Command::new(env::current_exe().unwrap());
        let tests = tests
            .args(["caches::", "casts::", "coded::", "products::"])
            .env(HELD, set.name());
        let output = tests.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{set}: {said}");
        assert!(!said.contains(" 0 passed"), "{set}: {said}");
    }
}

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
