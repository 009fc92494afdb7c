//! The case files in `tests/cases/`, which other libraries computed, as `moebius verify` runs them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use burn::tensor::DType;
use moebius::ErrorKind;
use moebius_cases::{CaseFile, Error, OpError, Verdict, judge};
use moebius_conformance::{Case, Outcome, case_folder};
use moebius_tests::target::Target;
use pollster::block_on;
use std::fs;
use std::path::PathBuf;

/// Cases of case files that other libraries computed.
pub(crate) const CASES: &[Case] = &[
    Case::new("case_files::routing", |target| {
        check(target, &["route", "balance_losses"], DType::F32)
    }),
    Case::new("case_files::layers", |target| {
        check(target, &["moe_layer"], DType::F32)
    }),
    Case::new("case_files::attention", |target| {
        check(target, &["attention"], DType::F32)
    }),
    Case::new("case_files::fp8", |target| check(target, &FP8, DType::F32)),
    Case::new("case_files::f16", |target| check(target, &[], DType::F16)),
    Case::new("case_files::bf16", |target| check(target, &[], DType::BF16)),
];

const FP8: [&str; 4] = [
    "fp8_cast",
    "fp8_quantize",
    "fp8_linear",
    "fp8_training_linear",
];

/// The largest file, in bytes, that runs on every device. Larger ones are the same operations with more tokens; the command's own tests, and
/// those of the browser package, run them.
const MOST: u64 = 24 * 1024;

/// The case files of an operation's name, with and without `_backward`, in this dtype, sorted.
fn files(operations: &[&str], dtype: DType) -> Vec<(PathBuf, CaseFile)> {
    let entries = fs::read_dir(case_folder()).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|ending| ending == "safetensors")
    });
    paths.retain(|path| fs::metadata(path).unwrap().len() <= MOST);
    paths.sort();
    let read = |path: PathBuf| {
        let case = CaseFile::read(&path).unwrap();
        (path, case)
    };
    let asked = |(_, case): &(PathBuf, CaseFile)| {
        let plain = case.op().trim_end_matches("_backward");
        case.dtype() == dtype && (operations.is_empty() || operations.contains(&plain))
    };
    paths.into_iter().map(read).filter(asked).collect()
}

/// Runs the files of these operations, of all if there are none, and asserts that every output is as expected.
fn check(target: &Target, operations: &[&str], dtype: DType) -> Outcome {
    let files = files(operations, dtype);
    assert!(!files.is_empty(), "no case of {operations:?} in {dtype:?}");
    for (path, case) in files {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let outputs = match block_on(judge(&case, &target.burn())) {
            Ok(outputs) => outputs,
            Err(Error::Op(OpError::Device(error))) if error.kind() == ErrorKind::Unsupported => {
                return Outcome::Unsupported(error.to_string());
            }
            Err(error) => panic!("{name}: {error}"),
        };
        for output in outputs {
            assert_eq!(output.verdict, Verdict::Pass, "{name}: {output:?}");
        }
    }
    Outcome::Ran
}
