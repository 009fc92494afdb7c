use super::*;

#[test]
fn a_reference_that_is_being_written_is_passed_over() {
    let cache = tempfile::tempdir().unwrap();
    let (reference, snapshot) = (
        cache.path().join("refs/main"),
        cache.path().join("snapshots/abc"),
    );
    for folder in [&cache.path().join("refs"), &snapshot] {
        fs::create_dir_all(folder).unwrap();
    }
    for text in ["", "\n", "abc", "abc\n", "gone"] {
        fs::write(&reference, text).unwrap();
        assert_eq!(model_at(cache.path()).unwrap(), snapshot, "{text:?}");
    }
}
