//! `validate reference`: what the bundled model should compute, for the demo page, which compares with it because it has no room for the decoder
//! in f64.

use std::collections::BTreeMap;
use std::path::Path;

use moebius_model::computation::{Computed, Limits};
use moebius_weights::{Dtype, TensorSpec, Writer};
use serde_json::{Map, Value, json};

use super::model::Work;
use crate::args::{AnswerArgs, Devices, ValidateReferenceArgs};
use crate::certificate::{Hash, Place};
use crate::error::CliError;
use crate::screen::{Outcome, Screen};

/// Key of the metadata that says what the tensors are of.
const CERTIFICATE: &str = "certificate";

/// Runs `moebius validate reference`.
pub(super) fn run(args: &ValidateReferenceArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let bundled = AnswerArgs {
        model: None,
        bundled: true,
        devices: Devices::All,
        tokens: None,
        exact: false,
    };
    let work = Work::read(&bundled)?;
    let (reference, hash) = work.reference(screen)?;
    let parts = reference.parts.iter();
    let places = parts.clone().map(|of| Place {
        layer: of.layer,
        part: of.part,
    });
    let described = json!({
        "subject": work.subject(hash),
        "limits": Limits::default(),
        "parts": places.collect::<Vec<_>>(),
        "files": files(),
    });
    let tensors = parts.enumerate();
    let tensors = tensors.flat_map(|(at, of)| tensors_of(at, of, reference.tokens));
    let tensors: Vec<_> = tensors.collect();
    write(&args.file, &described, tensors)?;
    let (file, count) = (args.file.display(), reference.parts.len());
    screen.line(&format!("{file}: {count} parts"))?;
    screen.object(&json!({ "file": args.file, "parts": count }))?;
    Ok(Outcome::Good)
}

/// The hashes of the files that the bundled model is made of, by name.
fn files() -> Map<String, Value> {
    let files = moebius_shipped::FILES.iter();
    let files = files.filter(|(name, _)| *name == "config.json" || name.ends_with(".safetensors"));
    let hashed = files.map(|(name, bytes)| {
        let mut hash = Hash::new();
        hash.add(bytes);
        ((*name).to_owned(), Value::String(hash.digits()))
    });
    hashed.collect()
}

/// The tensors of a part of so many tokens: its values in f32, and of a router also the keys and the chosen experts of each token.
fn tensors_of(at: usize, of: &Computed, tokens: usize) -> Vec<(TensorSpec, Vec<u8>)> {
    let tensor = |name: &str, dtype: Dtype, bytes: Vec<u8>| {
        let width = bytes.len() / 4 / tokens;
        let spec = TensorSpec {
            name: format!("{at}.{name}"),
            dtype,
            shape: vec![tokens, width],
        };
        (spec, bytes)
    };
    let floats = |values: &mut dyn Iterator<Item = f64>| -> Vec<u8> {
        values.flat_map(|of| (of as f32).to_le_bytes()).collect()
    };
    let values = floats(&mut of.values.iter().copied());
    let mut tensors = vec![tensor("values", Dtype::F32, values)];
    if !of.choices.is_empty() {
        let choices = || of.choices.iter();
        let keys = floats(&mut choices().flat_map(|of| of.keys.iter().copied()));
        let experts = choices().flat_map(|of| &of.experts);
        let experts = experts.flat_map(|expert| (*expert as u32).to_le_bytes());
        tensors.push(tensor("keys", Dtype::F32, keys));
        tensors.push(tensor("experts", Dtype::U32, experts.collect()));
    }
    tensors
}

/// Writes tensors and what they are of as one safetensors file.
fn write(
    path: &Path,
    described: &Value,
    tensors: Vec<(TensorSpec, Vec<u8>)>,
) -> Result<(), CliError> {
    let metadata = BTreeMap::from([(CERTIFICATE.to_owned(), described.to_string())]);
    let (specs, bytes): (Vec<_>, Vec<_>) = tensors.into_iter().unzip();
    let mut writer = Writer::file(path, &specs, &metadata)?;
    for (spec, bytes) in specs.iter().zip(&bytes) {
        writer.append(&spec.name, bytes)?;
    }
    writer.finish()?;
    Ok(())
}
