//! The cases of a certificate, the bundled ones or those of a folder, and what a device computed of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device as BurnDevice;
use moebius_cases::{CaseError, CaseFile};
use moebius_device::Device;

use crate::bundled;
use crate::certificate::{Family, Found, Furthest, Hash, OfCases, Wrong};
use crate::error::CliError;
use crate::report::{FileReport, FileVerdict, MODEL_CASE, Report};
use crate::screen::Screen;

/// Ending of case files.
const ENDING: &str = "safetensors";

/// Case files, and what a certificate says of them.
pub(super) struct Cases {
    /// Name and path of each file; `None` for the bundled ones.
    files: Option<Vec<(String, PathBuf)>>,
    pub(super) subject: OfCases,
}

impl Cases {
    /// The case files of a folder, those of whole models in folders below it among them, or the bundled ones.
    ///
    /// # Errors
    /// [`CliError::ReadFile`] for what can't be read, and [`CliError::Usage`] for a folder without case files.
    pub(super) fn read(folder: Option<&Path>) -> Result<Self, CliError> {
        let mut hash = Hash::new();
        let mut add = |name: &str, bytes: &[u8]| {
            hash.add(name.as_bytes());
            hash.add(bytes);
        };
        let files = folder.map(listed).transpose()?;
        let count = match &files {
            None => {
                let bundled = moebius_case_files::FILES;
                bundled.iter().for_each(|(name, bytes)| add(name, bytes));
                bundled.len()
            }
            Some(files) => {
                for (name, path) in files {
                    add(
                        name,
                        &fs::read(path).map_err(CliError::read(path.display()))?,
                    );
                }
                files.len()
            }
        };
        let name = folder.map_or("the bundled cases".to_owned(), |of| {
            of.display().to_string()
        });
        let subject = OfCases {
            name,
            files: count,
            hash: hash.digits(),
        };
        Ok(Self { files, subject })
    }

    /// Runs the cases in the types that the device has.
    pub(super) fn run(&self, (name, device): (Device, &BurnDevice), screen: &Screen) -> Found {
        let cases = match &self.files {
            None => bundled::cases_on(device),
            Some(files) => bundled::fitting(files.iter().map(parsed), device),
        };
        let lacking = self.subject.files - cases.len();
        let bar = screen.steps("cases", cases.len());
        let report = Report::run((name, device), cases.into_iter(), &bar);
        found(&report, lacking)
    }
}

/// Names and paths of the case files of a folder, in the order of their names.
fn listed(folder: &Path) -> Result<Vec<(String, PathBuf)>, CliError> {
    let shown = folder.display().to_string();
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(CliError::read(&shown))? {
        let path = entry.map_err(CliError::read(&shown))?.path();
        // A model has the name of its folder.
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = name.into_owned();
        let of_model = path.join(MODEL_CASE);
        if of_model.is_file() {
            files.push((name, of_model));
        } else if path.extension().is_some_and(|ending| ending == ENDING) {
            files.push((name, path));
        }
    }
    if files.is_empty() {
        let message = format!("expected case files in {shown}, got none");
        let hint = "docs/cases.md says what a case file is";
        return Err(CliError::usage(message, Some(hint)));
    }
    files.sort();
    Ok(files)
}

fn parsed((name, path): &(String, PathBuf)) -> (String, Result<CaseFile, CaseError>) {
    (name.clone(), CaseFile::read(path))
}

/// What a certificate has of a device's report: the cases of each operation and type, and those that don't pass.
pub(super) fn found(report: &Report, lacking: usize) -> Found {
    let mut families: BTreeMap<[String; 2], Family> = BTreeMap::new();
    for file in &report.files {
        let key = [family, dtype].map(|of| of(file));
        let [family, dtype] = key.clone();
        let entry = families.entry(key).or_insert(Family {
            family,
            dtype,
            passed: 0,
            failed: 0,
            errors: 0,
            furthest: None,
        });
        match file.verdict {
            FileVerdict::Pass => entry.passed += 1,
            FileVerdict::Fail => entry.failed += 1,
            FileVerdict::Error => entry.errors += 1,
        }
        for output in &file.outputs {
            let far = |of: &Furthest| of.relative_l2.unwrap_or(f64::INFINITY);
            let this = Furthest {
                case: file.file.clone(),
                output: output.name.clone(),
                relative_l2: output.rel_l2.is_finite().then_some(output.rel_l2),
            };
            if entry
                .furthest
                .as_ref()
                .is_none_or(|of| far(of) < far(&this))
            {
                entry.furthest = Some(this);
            }
        }
    }
    let wrong = report.bad().map(|file| Wrong {
        family: family(file),
        dtype: dtype(file),
        case: file.file.clone(),
        problem: file.problem(),
    });
    Found::Cases {
        families: families.into_values().collect(),
        lacking,
        wrong: wrong.collect(),
    }
}

/// The family of a case: its operation.
fn family(file: &FileReport) -> String {
    file.op.clone().unwrap_or_else(|| "unreadable".to_owned())
}

/// The type of a case.
fn dtype(file: &FileReport) -> String {
    let dtype = file.dtype.map(|dtype| format!("{dtype:?}").to_lowercase());
    dtype.unwrap_or_else(|| "–".to_owned())
}

#[cfg(test)]
#[path = "cases_tests.rs"]
mod tests;
