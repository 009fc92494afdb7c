//! Writes published models as GGUF files, which [`crate::load`] and llama.cpp read.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use moebius_weights::Unfit;
use moebius_weights::gguf::{GgmlType, GgufSpec, GgufValue, GgufWriter, GgufWritten, Vocabulary};

use crate::decoder::{ModelSpec, Place, Slot};
use crate::error::Error;
use crate::families::{Family, ROPE_FACTORS, gguf_form};
use crate::gguf_types::GgufTypes;
use crate::load::{ModelFiles, Progress, Wanted, expand, is_whole, taken};

/// Version of the types of blocks, as llama.cpp counts it.
const QUANTIZATION_VERSION: u64 = 2;

/// What a GGUF file gets beside the weights, and the types of its matrices.
#[derive(Clone, Copy, Debug)]
pub struct GgufOptions<'a> {
    /// Types of matrices: those of layers, the embedding and the head. Routers, norms, biases and everything else of one dimension are F32,
    /// and matrices whose rows are no whole blocks get [`GgmlType::fitting`].
    pub types: GgufTypes,
    /// The tokenizer's vocabulary, with as many tokens as the model has; llama.cpp reads no file without one.
    pub vocabulary: Option<&'a Vocabulary>,
    /// The chat template, in Jinja.
    pub chat_template: Option<&'a str>,
}

/// What was written into a GGUF file.
#[derive(Clone, Debug, PartialEq)]
pub struct GgufReport {
    /// The value of `general.architecture`.
    pub architecture: &'static str,
    /// The tensors, in the order of the file.
    pub tensors: Vec<GgufWritten>,
    /// Names of the matrices that got another type than was asked for, because their rows aren't whole blocks of it.
    pub other_type: Vec<String>,
    /// What llama.cpp computes otherwise than the file says, in words; `None` where it does not.
    pub note: Option<String>,
}

/// Writes the model in `files` into the new GGUF file `target`, which appears when it is complete. One matrix is in memory at a time, of a
/// stack of experts one expert's.
///
/// Before anything is written, the file's description of the model is read again and compared with the model's own.
///
/// # Errors
/// [`Error::Config`] for a family that can't be written, a model that no file of its architecture describes, and a
/// vocabulary of another size, [`Error::Weights`] for values that the type doesn't have and files that can't be read or written, or
/// that exist.
pub fn save_gguf(
    files: &ModelFiles,
    options: GgufOptions<'_>,
    target: &Path,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<GgufReport, Error> {
    check(files, options)?;
    let form = gguf_form(files.spec(), files.family()).map_err(Error::Config)?;
    let wanted = tensors(form.family, &form.spec, files.family())?;
    let described = (&form.spec, form.architecture);
    let asked = |one: &Wanted| {
        let row = one.shape.last().copied().unwrap_or(1);
        options.types.of_place(one.place, row, described)
    };
    let mut specs: Vec<_> = wanted.iter().map(|one| declared(one, asked(one))).collect();
    if let Some(divisors) = &form.divisors {
        specs.push(GgufSpec {
            name: ROPE_FACTORS.to_owned(),
            kind: GgmlType::F32,
            shape: vec![divisors.len()],
        });
    }
    let metadata = metadata(form.architecture, &form.metadata, options);
    let file = GgufWriter::declared(&target.display().to_string(), &metadata, &specs)?;
    form.check(&file, files.family()).map_err(Error::Config)?;
    let mut writer = GgufWriter::begin(target, &metadata, &specs)?;
    if let Some(divisors) = &form.divisors {
        writer.append(ROPE_FACTORS, divisors)?;
    }
    write(files, (&wanted[..], &form.spec), &mut writer, progress)?;
    let both = wanted.iter().zip(&specs);
    let other = both.filter(|(one, spec)| one.place.slot.takes_blocks() && spec.kind != asked(one));
    let other_type = other.map(|(_, spec)| spec.name.clone()).collect();
    Ok(GgufReport {
        architecture: form.architecture,
        tensors: writer.finish()?,
        other_type,
        note: form.note,
    })
}

/// Checks what doesn't depend on the form of the model.
fn check(files: &ModelFiles, options: GgufOptions<'_>) -> Result<(), Error> {
    let expected = "a folder with config.json";
    Error::check(files.gguf().is_none(), "the model", expected, "a GGUF file")?;
    let words = files.spec().vocabulary;
    let listed = options.vocabulary.map_or(words, |of| of.tokens.len());
    Error::check(listed == words, "tokens of the vocabulary", words, listed)
}

/// The tensors of a file with the first of the family's layouts, layer by layer; `name` is the family of the model.
fn tensors(family: &Family, spec: &ModelSpec, name: &str) -> Result<Vec<Wanted>, Error> {
    let rules = family.layouts.first().copied().unwrap_or_default();
    let mut wanted = expand(rules, spec);
    let held: BTreeSet<Place> = wanted.iter().map(|one| one.place).collect();
    let missing = Slot::places(spec).into_iter().find(|at| !held.contains(at));
    if let Some(Place { layer, slot }) = missing {
        let what = format!("{slot:?} of layer {layer} of a model of the family `{name}`");
        let expected = "a tensor that the architecture has for it";
        return Err(Error::Config(Unfit::new(what, expected, "none")));
    }
    wanted.sort_by_key(|one| (one.place.slot.is_of_layer(), one.place.layer));
    Ok(wanted)
}

fn declared(wanted: &Wanted, kind: GgmlType) -> GgufSpec {
    let (name, mut shape) = (wanted.piece.name.clone(), wanted.shape.clone());
    let row = shape.last().copied().unwrap_or(1);
    let kind = if wanted.place.slot.takes_blocks() {
        kind.fitting(row)
    } else {
        GgmlType::F32
    };
    // In llama.cpp a matrix of one row is a vector.
    if shape.len() == 2 && shape[0] == 1 {
        shape.remove(0);
    }
    GgufSpec { name, kind, shape }
}

/// The metadata of the whole file.
fn metadata(
    architecture: &str,
    of_model: &[(String, GgufValue)],
    options: GgufOptions<'_>,
) -> Vec<(String, GgufValue)> {
    let text = |text: &str| GgufValue::Text(text.to_owned());
    let mut all = vec![
        ("general.architecture".to_owned(), text(architecture)),
        ("general.type".to_owned(), text("model")),
    ];
    for (key, number) in [
        ("general.file_type", options.types.file_type()),
        ("general.quantization_version", QUANTIZATION_VERSION),
    ] {
        all.push((key.to_owned(), GgufValue::Unsigned(number)));
    }
    all.extend_from_slice(of_model);
    if let Some(vocabulary) = options.vocabulary {
        all.extend(vocabulary.metadata());
    }
    if let Some(template) = options.chat_template {
        all.push(("tokenizer.chat_template".to_owned(), text(template)));
    }
    all
}

/// Writes the tensors of each place, one of its matrices at a time.
fn write(
    files: &ModelFiles,
    (wanted, spec): (&[Wanted], &ModelSpec),
    writer: &mut GgufWriter,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), Error> {
    let [bytes, before] = files.bytes();
    let mut of_places: BTreeMap<Place, Vec<&Wanted>> = BTreeMap::new();
    for one in wanted {
        of_places.entry(one.place).or_default().push(one);
    }
    for (place, tensors) in of_places {
        let [stack, rows, columns] = place.slot.extents(&place.shape(spec));
        for number in 0..stack {
            let matrix = files.matrix(source(files, place), number)?;
            for one in &tensors {
                let values = if is_whole(&one.piece) {
                    Cow::Borrowed(&matrix[..])
                } else {
                    Cow::Owned(taken(&one.piece, &matrix, [rows, columns]))
                };
                writer.append(&one.piece.name, &values)?;
                let [_, now] = files.bytes();
                progress(Progress {
                    tensor: &one.piece.name,
                    // An embedding that is the head, too, may be read twice.
                    read: (now - before).min(bytes),
                    bytes,
                });
            }
        }
    }
    Ok(())
}

/// The place of the model that a place of the file is read from: a head that the file has and the model ties is the embedding.
fn source(files: &ModelFiles, place: Place) -> Place {
    let tied = place.slot == Slot::Head && files.spec().tied;
    let slot = if tied { Slot::Embedding } else { place.slot };
    Place { slot, ..place }
}
