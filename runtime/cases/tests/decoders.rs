//! Decoders of published kinds, tiny and random, against the logits that transformers computes (`tests/cases/make_cases.py`).
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

use std::path::{Path, PathBuf};

use moebius_cases::{CaseFile, Verdict, judge};

/// The folders of `tests/cases` that hold a decoder.
fn folders() -> Vec<PathBuf> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let entries = std::fs::read_dir(cases).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut folders: Vec<_> = paths
        .filter(|path| path.join("logits.case.safetensors").is_file())
        .collect();
    folders.sort();
    folders
}

#[test]
fn logits_are_those_of_transformers() {
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    let folders = folders();
    assert!(folders.len() >= 6, "{folders:?}");
    let mut failed = Vec::new();
    for folder in folders {
        let case = CaseFile::read(&folder.join("logits.case.safetensors")).unwrap();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        match pollster::block_on(judge(&case, &device)) {
            Err(error) => failed.push(format!("{name}: {error}")),
            Ok(outputs) => {
                for output in outputs {
                    println!("{name}: rel_l2 {:.1e}", output.rel_l2);
                    if output.verdict != Verdict::Pass {
                        failed.push(format!("{name}: rel_l2 {:.1e}", output.rel_l2));
                    }
                }
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
