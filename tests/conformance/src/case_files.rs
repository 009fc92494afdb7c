//! The case files in `tests/cases/`, which other libraries computed, as `moebius verify` runs them.

use crate::Outcome;
use crate::tensors::cases;
use burn::tensor::DType;
use moebius::ErrorKind;
use moebius_cases::{CaseFile, Error, OpError, Verdict, judge};
use moebius_tests::target::Target;
use pollster::block_on;
use std::fs;
use std::path::PathBuf;

/// The largest file, in bytes, that runs on every device. Larger ones are the same operations with more tokens; the command's own tests, and
/// those of the browser package, run them.
const MOST: u64 = 24 * 1024;

/// The case files of an operation's name, with and without `_backward`, in this dtype, sorted.
fn files(operations: &[&str], dtype: DType) -> Vec<(PathBuf, CaseFile)> {
    let entries = fs::read_dir(cases()).unwrap();
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

pub(crate) fn routing(target: &Target) -> Outcome {
    check(target, &["route", "balance_losses"], DType::F32)
}

pub(crate) fn layers(target: &Target) -> Outcome {
    check(target, &["moe_layer"], DType::F32)
}

pub(crate) fn attention(target: &Target) -> Outcome {
    check(target, &["attention"], DType::F32)
}

pub(crate) fn fp8(target: &Target) -> Outcome {
    let operations = [
        "fp8_cast",
        "fp8_quantize",
        "fp8_linear",
        "fp8_training_linear",
    ];
    check(target, &operations, DType::F32)
}

pub(crate) fn halves(target: &Target, dtype: DType) -> Outcome {
    check(target, &[], dtype)
}
