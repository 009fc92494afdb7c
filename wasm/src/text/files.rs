//! The files of a published model, as JavaScript hands them over.

use js_sys::{Array, Object, Uint8Array};
use moebius_model::load::ModelFiles;
use moebius_weights::gguf::GgufFile;
use moebius_weights::{ReadAt, Reader};
use wasm_bindgen::{JsCast, JsValue};

use super::blob::{BlobSource, is_blob, whole};
use super::words::{Words, missing};
use crate::failure::{Code, Failure};

const CONFIG: &str = "config.json";

/// A model whose headers have been read, and its words.
pub(super) async fn open(files: &JsValue) -> Result<(ModelFiles, Words), Failure> {
    let given = entries(files)?;
    let ends = |name: &str, ending: &str| name.to_ascii_lowercase().ends_with(ending);
    if let Some((name, value)) = given.iter().find(|(name, _)| ends(name, ".gguf")) {
        if given.len() > 1 {
            let got = given.iter().map(|(name, _)| name.as_str());
            let got = got.collect::<Vec<_>>().join(", ");
            return Err(Failure::expected("files", "a GGUF file alone", got));
        }
        return gguf(name, value).await;
    }
    let (mut weights, mut beside) = (Vec::new(), Vec::new());
    for (name, value) in given {
        if ends(&name, ".safetensors") {
            weights.push((name, source(&value)?))
        } else {
            beside.push((name.clone(), bytes(&name, &value).await?))
        }
    }
    if weights.is_empty() {
        let got = beside.iter().map(|(name, _)| name.as_str());
        let got = got.collect::<Vec<_>>().join(", ");
        let expected = "weights in .safetensors or .gguf files";
        return Err(Failure::expected("files", expected, got));
    }
    let config = beside.iter().find(|(name, _)| name == CONFIG);
    let config = config.map(|(_, bytes)| serde_json::from_slice(bytes));
    let config = config.transpose().map_err(|error| {
        Failure::new(
            Code::BAD_FILE,
            format!("{CONFIG}: expected JSON, got {error}"),
        )
    })?;
    let reader = Reader::from_sources(weights, config.map(|config| (CONFIG, config)));
    let model = ModelFiles::of(reader.map_err(moebius_model::Error::from)?)?;
    let words = Words::of_files(&beside).await?;
    Ok((model, words))
}

async fn gguf(name: &str, value: &JsValue) -> Result<(ModelFiles, Words), Failure> {
    let file = GgufFile::from_source(name, source(value)?);
    let file = file.map_err(moebius_model::Error::from)?;
    let vocabulary = file.vocabulary().map_err(moebius_model::Error::from)?;
    let none = || Failure::new(Code::BAD_FILE, missing(name, "a tokenizer"));
    let vocabulary = vocabulary.ok_or_else(none)?;
    let words = Words::of_gguf(name, vocabulary, file.chat_template()).await?;
    Ok((ModelFiles::of_gguf(file)?, words))
}

/// The files by name, in the order of the names.
fn entries(files: &JsValue) -> Result<Vec<(String, JsValue)>, Failure> {
    let Some(object) = files
        .dyn_ref::<Object>()
        .filter(|_| !Array::is_array(files))
    else {
        let expected = "an object of Uint8Arrays or Blobs by name";
        return Err(Failure::expected("files", expected, "something else"));
    };
    let mut entries: Vec<(String, JsValue)> = Vec::new();
    for pair in Object::entries(object).iter() {
        let pair: &Array = pair.unchecked_ref();
        let (name, value) = (pair.get(0).as_string().unwrap_or_default(), pair.get(1));
        if !value.is_instance_of::<Uint8Array>() && !is_blob(&value) {
            let what = format!("file {name}");
            return Err(Failure::expected(
                &what,
                "a Uint8Array or a Blob",
                "something else",
            ));
        }
        entries.push((name, value));
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(entries)
}

/// Weights: those in a `Blob` stay there.
fn source(value: &JsValue) -> Result<Box<dyn ReadAt>, Failure> {
    Ok(match value.dyn_ref::<Uint8Array>() {
        Some(bytes) => Box::new(bytes.to_vec()),
        None => Box::new(BlobSource::new(value)?),
    })
}

async fn bytes(name: &str, value: &JsValue) -> Result<Vec<u8>, Failure> {
    match value.dyn_ref::<Uint8Array>() {
        Some(bytes) => Ok(bytes.to_vec()),
        None => whole(name, value).await,
    }
}
