//! The case files and the model that are included in the binary.

use burn::tensor::Device;
use moebius_cases::{CaseError, CaseFile};
use moebius_model::load::ModelFiles;
use moebius_text::Files;
use moebius_weights::Reader;

use crate::error::CliError;

/// Name shown for the bundled model in place of a path.
pub(crate) const MODEL_NAME: &str = "the bundled model";

const CONFIG: &str = "config.json";

/// Names of the cases by which `moebius doctor` tests a device: a layer with its router, sort and grouped products, attention, and a product
/// with FP8 weights. All are in f32, which every device has.
const SELF_TEST: [&str; 3] = [
    "attention_causal",
    "fp8_linear_w8a16_e4m3",
    "moe_layer_glu_silu",
];

/// All cases, parsed one at a time.
pub(crate) fn cases() -> impl Iterator<Item = (String, Result<CaseFile, CaseError>)> {
    moebius_case_files::FILES.iter().map(parsed)
}

/// The cases of the self-test, parsed one at a time.
pub(crate) fn self_test() -> impl Iterator<Item = (String, Result<CaseFile, CaseError>)> {
    let files = moebius_case_files::FILES.iter();
    let chosen = files.filter(|(name, _)| SELF_TEST.contains(name));
    chosen.map(parsed)
}

fn parsed(&(name, bytes): &(&str, &'static [u8])) -> (String, Result<CaseFile, CaseError>) {
    (name.to_owned(), CaseFile::parse(bytes))
}

/// The cases in a dtype that `device` has.
pub(crate) fn cases_on(device: &Device) -> Vec<(String, Result<CaseFile, CaseError>)> {
    fitting(cases(), device)
}

/// Those of `cases` in a dtype that `device` has: it isn't wrong for lack of f16 or bf16.
pub(crate) fn fitting(
    cases: impl Iterator<Item = (String, Result<CaseFile, CaseError>)>,
    device: &Device,
) -> Vec<(String, Result<CaseFile, CaseError>)> {
    let lacks = |case: &CaseFile| moebius::check_dtype(case.dtype(), device).is_err();
    cases
        .filter(|(_, case)| !case.as_ref().is_ok_and(lacks))
        .collect()
}

/// The bundled model, and the files beside its weights.
pub(crate) fn model() -> Result<(ModelFiles, Files), CliError> {
    let (weights, beside): (Vec<_>, Vec<_>) = moebius_shipped::FILES
        .iter()
        .map(|&(name, bytes)| (name.to_owned(), bytes.to_vec()))
        .partition(|(name, _)| name.ends_with(".safetensors"));
    let config = beside.iter().find(|(name, _)| name == CONFIG);
    let config = config.map(|(_, bytes)| serde_json::from_slice(bytes));
    let config = config.transpose()?.map(|config| (CONFIG, config));
    let weights = weights
        .into_iter()
        .map(|(name, bytes)| (name, Box::new(bytes) as _));
    let files = ModelFiles::of(Reader::from_sources(weights, config)?)?;
    Ok((files, Files::in_memory(beside)))
}

#[cfg(test)]
#[path = "bundled_tests.rs"]
mod tests;
