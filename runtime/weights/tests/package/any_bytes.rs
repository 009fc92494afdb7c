//! Any bytes as the manifest of a package are read or refused. `fuzz/fuzz_targets/package.rs` runs this, too.

use std::path::{Component, Path};

use moebius_weights::package::Manifest;

/// Reads `data` as a manifest, and checks that one which is believed names files below its folder alone.
pub(crate) fn any_bytes(data: &[u8]) {
    let Ok(manifest) = Manifest::parse(Path::new("package"), data) else {
        return;
    };
    let mut total = 0_u64;
    for file in &manifest.files {
        let mut parts = Path::new(&file.path).components();
        let inside = parts.all(|part| matches!(part, Component::Normal(_)));
        assert!(inside, "{:?} leads out of the package", file.path);
        let sum = total.checked_add(file.bytes);
        assert!(sum.is_some(), "more bytes than there can be");
        total = sum.unwrap_or_default();
        assert_eq!(file.sha256.len(), 64);
    }
    assert_eq!(manifest.bytes(), total);
    let written = serde_json::to_vec(&manifest);
    let again = written.map(|bytes| Manifest::parse(Path::new("package"), &bytes));
    assert!(
        matches!(again, Ok(Ok(again)) if again.files == manifest.files),
        "the list of files changes when it is written"
    );
}
