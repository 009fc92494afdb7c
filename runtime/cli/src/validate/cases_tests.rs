use super::*;
use crate::certificate::tests::{certificate, device};
use crate::certificate::{Section, Verdict};
use crate::validate::pages;
use burn::tensor::DType;
use moebius_cases::{OutputReport, Tolerance, Verdict as Judged};

/// The report of a case with one output, which is this far from what is expected.
fn case(name: &str, op: &str, dtype: DType, far: f64) -> FileReport {
    let right = far <= 1e-4;
    let output = OutputReport {
        name: "o".to_owned(),
        max_abs: far,
        rel_l2: far,
        tolerance: Tolerance::RelL2(1e-4),
        mismatches: None,
        first_mismatch: None,
        shapes: None,
        verdict: if right { Judged::Pass } else { Judged::Fail },
    };
    FileReport {
        file: name.to_owned(),
        op: Some(op.to_owned()),
        dtype: Some(dtype),
        outputs: vec![output],
        verdict: if right {
            FileVerdict::Pass
        } else {
            FileVerdict::Fail
        },
        error: None,
    }
}

/// What a device finds whose case `route_groups` is this far from what is expected.
fn planted(far: f64) -> Found {
    let report = Report {
        device: "cuda:0".to_owned(),
        files: vec![
            case("attention_causal", "attention", DType::F32, 1e-7),
            case("attention_f16", "attention", DType::F16, 1e-5),
            case("attention_full", "attention", DType::F32, 2e-7),
            case("route_groups", "route", DType::F32, far),
        ],
        passed: 3,
        failed: usize::from(far > 1e-4),
        errors: 0,
    };
    found(&report, 1)
}

#[test]
fn cases_are_told_by_family_and_type() {
    let Found::Cases {
        families,
        lacking,
        wrong,
    } = planted(0.0)
    else {
        panic!("cases are found")
    };
    let told = families.iter().map(|of| {
        let furthest = of.furthest.as_ref().map(|of| of.case.as_str());
        (of.family.as_str(), of.dtype.as_str(), of.passed, furthest)
    });
    let expected = [
        ("attention", "f16", 1, Some("attention_f16")),
        ("attention", "f32", 2, Some("attention_full")),
        ("route", "f32", 1, Some("route_groups")),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert_eq!((lacking, wrong), (1, Vec::new()));
}

#[test]
fn a_wrong_case_of_one_device_is_named_by_family_and_case() {
    for far in [0.5, f64::INFINITY, f64::NAN] {
        let devices = [("flex", planted(1e-7)), ("cuda:0", planted(far))];
        let devices = devices.map(|(name, found)| device(name, vec![(Section::Cases, found)]));
        let certificate = certificate(Vec::from(devices));
        let verdicts: Vec<Verdict> = certificate.devices.iter().map(|of| of.verdict).collect();
        assert_eq!(verdicts, [Verdict::Same, Verdict::Apart]);
        let said = pages::verdict(&certificate);
        let named = "cuda:0: cases: 1 of 4 cases don't pass, the first is route in f32: route_groups: o fail";
        assert!(said.starts_with(named), "{said}");
        assert!(said.ends_with("on 1 of 2 devices"), "{said}");
    }
}

#[test]
fn a_folder_has_its_cases_and_those_of_whole_models() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("decoder_x");
    fs::create_dir(&model).unwrap();
    for path in [folder.path().join("b.safetensors"), model.join(MODEL_CASE)] {
        fs::write(path, "no case").unwrap();
    }
    fs::write(folder.path().join("notes.txt"), "").unwrap();
    fs::write(model.join("model.safetensors"), "").unwrap();
    let cases = Cases::read(Some(folder.path())).unwrap();
    let files = cases.files.as_ref().unwrap();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["b", "decoder_x"]);
    assert_eq!(cases.subject.files, 2);
    let one = cases.subject.hash;
    fs::write(folder.path().join("b.safetensors"), "no cases").unwrap();
    let other = Cases::read(Some(folder.path())).unwrap().subject.hash;
    assert_ne!(one, other);
    assert!(Cases::read(Some(&folder.path().join("none"))).is_err());
    fs::remove_dir_all(&model).unwrap();
    fs::remove_file(folder.path().join("b.safetensors")).unwrap();
    let empty = Cases::read(Some(folder.path())).err();
    let said = empty.map(|error| error.to_string()).unwrap_or_default();
    assert!(said.starts_with("expected case files in "), "{said}");
}
