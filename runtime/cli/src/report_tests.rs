use super::*;

fn report(passed: usize, failed: usize, errors: usize) -> Report {
    Report {
        device: "flex".to_owned(),
        files: Vec::new(),
        passed,
        failed,
        errors,
    }
}

#[test]
fn only_a_panic_of_a_library_is_an_error_of_its_case() {
    // `repeat` panics in the standard library, like a driver's library in its own source.
    let library = guarded(|| "x".repeat(usize::MAX));
    let error = library.expect_err("it panicked").to_string();
    assert!(error.contains("capacity overflow"), "{error}");
    let short: &[u8] = &[];
    let parser = catch_unwind(|| guarded(|| short[0]));
    assert!(parser.is_err(), "our own panic was taken for a library's");
    // The guard works again for the next case.
    assert!(guarded(|| "x".repeat(usize::MAX)).is_err());
    assert!(matches!(guarded(|| 3), Ok(3)));
}

#[test]
fn an_error_outweighs_a_mismatch() {
    assert_eq!(report(3, 0, 0).outcome(), Outcome::Good);
    assert_eq!(report(3, 1, 0).outcome(), Outcome::Negative);
    assert_eq!(report(3, 1, 1).outcome(), Outcome::Incomplete);
    assert_eq!(report(0, 0, 1).outcome(), Outcome::Incomplete);
}
