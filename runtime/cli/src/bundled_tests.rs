use super::*;
use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn every_case_in_the_folder_is_bundled() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let on_disk: BTreeSet<String> = folder
        .read_dir()
        .expect("tests/cases is part of the tree")
        .filter_map(|entry| {
            let path = entry.expect("readable").path();
            let is_case = path.extension().is_some_and(|e| e == "safetensors");
            is_case.then(|| {
                path.file_stem()
                    .expect("a name")
                    .to_string_lossy()
                    .into_owned()
            })
        })
        .collect();
    let bundled = moebius_case_files::FILES.iter();
    let bundled: BTreeSet<String> = bundled.map(|&(name, _)| name.to_owned()).collect();
    assert_eq!(bundled, on_disk);
}

#[test]
fn every_bundled_case_parses() {
    for (name, case) in cases() {
        let case = case.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(name.starts_with(case.op()), "{name} holds {}", case.op());
    }
}

#[test]
fn the_self_test_has_its_cases_in_f32() {
    let cases: Vec<_> = self_test().collect();
    assert_eq!(cases.len(), SELF_TEST.len());
    for (name, case) in cases {
        let dtype = case.unwrap_or_else(|e| panic!("{name}: {e}")).dtype();
        assert_eq!(dtype, burn::tensor::DType::F32, "{name}");
    }
}
