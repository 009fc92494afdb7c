//! Writes models as Hugging Face folders, which [`crate::load`] and transformers read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use moebius_weights::folder::{
    PartFolder, check_free, copy_into, is_weights, small_files, write_whole,
};
use moebius_weights::{CONFIG_FILE, SHARD_BYTES, TensorSpec, WeightsError, Writer};
use safetensors::Dtype;
use serde_json::Value;

use crate::decoder::{Place, Values};
use crate::error::{Error, Misfits};
use crate::families::{Described, describe_all, text_config};
use crate::load::{Wanted, expand, taken};

/// Entries of a configuration that describe how the original weights were stored.
const OF_WEIGHTS: [&str; 4] = [
    "quantization_config",
    "quantization",
    "compression_config",
    "torch_dtype",
];

/// Files that a folder gets in addition to a model's weights and configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside<'a> {
    /// Folder whose other small files are copied, such as the tokenizer's.
    pub folder: Option<&'a Path>,
    /// Names and bytes of further files.
    pub files: &'a [(&'a str, Vec<u8>)],
}

/// Checks that [`save`] can write to the folder `target`: it doesn't exist or is empty.
///
/// # Errors
/// [`Error::Weights`] when something is at the path already, or the path can't be checked.
pub fn check_target(target: &Path) -> Result<(), Error> {
    Ok(check_free(target)?)
}

/// Writes the model that `config` describes into the folder `target`, which must be new or empty and appears only when it is complete.
///
/// Weights are written as f32, in the tensors of the family's published checkpoints; one place of the model is in memory at a time.
/// `config` becomes `config.json`, without its entries about quantisation, with f32 as the dtype, and untied where the model has a head of
/// its own. Of a model for images and text, the text model alone is written, with its own configuration.
///
/// # Errors
/// [`Error::Misfits`] for a configuration that describes no supported model, [`Error::Weights`] when a file can't be written, and the
/// errors of `values`.
pub fn save(
    values: &mut dyn Values,
    config: &Value,
    beside: Beside<'_>,
    target: &Path,
) -> Result<PathBuf, Error> {
    let config = text_config(config).map_err(Misfits::of_config)?;
    let Described {
        family, mut spec, ..
    } = describe_all(&config)?;
    let said = spec.tied;
    spec.tied = values.own_head().map_or(said, |own| !own);
    // Layouts of 4-bit codes can be read but not written.
    let is_of_floats = |wanted: &Vec<Wanted>| wanted.iter().all(|one| one.scales.is_none());
    let mut layouts = family.layouts.iter().map(|rules| expand(rules, &spec));
    let layout = layouts.find(is_of_floats);
    let wanted = layout.unwrap_or_else(|| unreachable!("every family has a layout of floats"));
    // The rows of q, k and v may be those of one tensor, which is written in their order.
    let mut names = BTreeSet::new();
    let tensors = wanted.iter().filter(|one| names.insert(&one.piece.name));
    let specs: Vec<_> = tensors.map(declared).collect();
    let folder = PartFolder::begin(target)?;
    let shards = Some(SHARD_BYTES);
    let mut writer = Writer::folder(folder.path(), &specs, &BTreeMap::new(), shards)?;
    let mut of_places: BTreeMap<Place, Vec<&Wanted>> = BTreeMap::new();
    for one in &wanted {
        of_places.entry(one.place).or_default().push(one);
    }
    for (place, tensors) in of_places {
        let extents = place.slot.extents(&place.shape(&spec));
        let all = values.values(place)?;
        for tensor in tensors {
            write(tensor, &all, extents, &mut writer)?;
        }
    }
    writer.finish()?;
    let mut config = of_floats(&config);
    if spec.tied != said {
        config["tie_word_embeddings"] = Value::from(spec.tied);
    }
    let written = format!("{config:#}\n");
    write_whole(&folder.path().join(CONFIG_FILE), written.as_bytes())?;
    if let Some(from) = beside.folder {
        copy_beside(from, folder.path())?;
    }
    for (name, bytes) in beside.files {
        write_whole(&folder.path().join(name), bytes)?;
    }
    Ok(folder.finish()?)
}

fn declared(wanted: &Wanted) -> TensorSpec {
    TensorSpec {
        name: wanted.piece.name.clone(),
        dtype: Dtype::F32,
        shape: wanted.shape.clone(),
    }
}

/// Writes one tensor of a place from the place's `values` \[stack, rows, columns\].
fn write(
    wanted: &Wanted,
    values: &[f32],
    [stack, rows, columns]: [usize; 3],
    writer: &mut Writer,
) -> Result<(), WeightsError> {
    let piece = &wanted.piece;
    let experts = match piece.expert {
        Some(expert) => expert..expert + 1,
        None => 0..stack,
    };
    let size = rows * columns;
    for expert in experts {
        let matrix = taken(piece, &values[expert * size..][..size], [rows, columns]);
        let bytes: Vec<u8> = matrix
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        writer.append(&piece.name, &bytes)?;
    }
    Ok(())
}

/// The configuration of the same model with f32 weights.
fn of_floats(config: &Value) -> Value {
    let mut config = config.clone();
    if let Value::Object(entries) = &mut config {
        let old = entries.contains_key("torch_dtype");
        for name in OF_WEIGHTS {
            entries.remove(name);
        }
        // transformers calls the entry `torch_dtype` up to version 4, and `dtype` since.
        let name = if old { "torch_dtype" } else { "dtype" };
        entries.insert(name.to_owned(), Value::from("float32"));
    }
    config
}

/// Copies the files of the folder that aren't written anew.
fn copy_beside(from: &Path, to: &Path) -> Result<(), WeightsError> {
    for name in small_files(from)? {
        let text = name.to_string_lossy();
        if !is_weights(&text) && text != CONFIG_FILE {
            copy_into(&from.join(&name), to)?;
        }
    }
    Ok(())
}
