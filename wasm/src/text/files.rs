//! The files of a published model, as JavaScript passes them: bytes, or blobs that the browser holds.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::path::Path;

use js_sys::{Array, Object, Promise, Reflect, Uint8Array};
use moebius_model::load::ModelFiles;
use moebius_model::{Adapter, AdapterFiles};
use moebius_weights::gguf::GgufFile;
use moebius_weights::{ReadAt, Reader, python_json};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};

use super::words::{Words, missing};
use crate::failure::{Code, Failure};
use crate::work::wait;

#[wasm_bindgen]
extern "C" {
    /// A `Blob`; a `File` is one, too.
    #[derive(Clone)]
    type Blob;

    #[wasm_bindgen(method, getter)]
    fn size(this: &Blob) -> f64;

    /// The part of the blob with bytes `from..to`, cut off at its end.
    #[wasm_bindgen(method, catch)]
    fn slice(this: &Blob, from: f64, to: f64) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(method, catch, js_name = arrayBuffer)]
    fn array_buffer(this: &Blob) -> Result<Promise, JsValue>;

    /// Synchronous reader of a `Blob`, which exists only in workers.
    #[derive(Clone)]
    type FileReaderSync;

    #[wasm_bindgen(constructor, catch)]
    fn new() -> Result<FileReaderSync, JsValue>;

    #[wasm_bindgen(method, catch, js_name = readAsArrayBuffer)]
    fn read(this: &FileReaderSync, blob: &JsValue) -> Result<JsValue, JsValue>;
}

const CONFIG: &str = "config.json";

/// Largest number of bytes read from the browser at a time; each piece is an `ArrayBuffer` until it is collected.
const PIECE: u64 = 4 << 20;

/// Largest number of bytes of a file that is read as a whole, such as a tokenizer or a configuration.
const WHOLE: u64 = 64 << 20;

thread_local! {
    /// Open blobs and their readers by number: JavaScript values belong to one thread, while weights may be read from any.
    static BLOBS: RefCell<HashMap<u32, (Blob, FileReaderSync)>> = RefCell::default();
    static NEXT: Cell<u32> = const { Cell::new(0) };
}

/// Reads the headers of a model's weights, and its tokenizer and chat template.
pub(super) async fn open(files: &JsValue) -> Result<(ModelFiles, Words), Failure> {
    let given = entries("files", files)?;
    let ends = |name: &str, ending: &str| name.to_ascii_lowercase().ends_with(ending);
    if let Some((name, value)) = given.iter().find(|(name, _)| ends(name, ".gguf")) {
        if given.len() > 1 {
            let got = names(&given);
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
        let expected = "weights in .safetensors or .gguf files";
        return Err(Failure::expected("files", expected, names(&beside)));
    }
    let config = beside.iter().find(|(name, _)| name == CONFIG);
    let config = config.map(|(_, bytes)| python_json(bytes));
    let config = config.transpose().map_err(|error| {
        let message = format!("{CONFIG}: expected JSON, got {error}");
        Failure::new(Code::BAD_FILE, message)
    })?;
    let reader = Reader::from_sources(weights, config.map(|config| (CONFIG, config)));
    let model = ModelFiles::of(reader.map_err(moebius_model::Error::from)?)?;
    let words = Words::of_files(&beside).await?;
    Ok((model, words))
}

/// Reads an adapter from its two files.
pub(super) async fn adapter(files: &JsValue) -> Result<Adapter, Failure> {
    let (mut config, mut weights) = (None, None);
    let given = entries("adapter", files)?;
    for (name, value) in &given {
        match name.as_str() {
            AdapterFiles::CONFIG => config = Some(bytes(name, value).await?),
            AdapterFiles::WEIGHTS => weights = Some(bytes(name, value).await?),
            _ => {}
        }
    }
    let (Some(config), Some(weights), 2) = (config, weights, given.len()) else {
        let expected = format!("{} and {}", AdapterFiles::CONFIG, AdapterFiles::WEIGHTS);
        return Err(Failure::expected("adapter", expected, names(&given)));
    };
    let files = AdapterFiles { config, weights };
    Ok(Adapter::of_files(files, Path::new("adapter"))?)
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

/// The names of files, for an error.
fn names<T>(files: &[(String, T)]) -> String {
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return "none".to_owned();
    }
    names.join(", ")
}

/// The files of the argument `what` with their names, sorted by name.
fn entries(what: &str, files: &JsValue) -> Result<Vec<(String, JsValue)>, Failure> {
    let Some(object) = files
        .dyn_ref::<Object>()
        .filter(|_| !Array::is_array(files))
    else {
        let expected = "an object of Uint8Arrays or Blobs by name";
        return Err(Failure::expected(what, expected, "something else"));
    };
    let mut entries: Vec<(String, JsValue)> = Vec::new();
    for pair in Object::entries(object).iter() {
        let pair: &Array = pair.unchecked_ref();
        let (name, value) = (pair.get(0).as_string().unwrap_or_default(), pair.get(1));
        if !value.is_instance_of::<Uint8Array>() && !value.is_instance_of::<Blob>() {
            let what = format!("file {name}");
            let expected = "a Uint8Array or a Blob";
            return Err(Failure::expected(&what, expected, "something else"));
        }
        entries.push((name, value));
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(entries)
}

/// Source of the weights: a copy of a `Uint8Array`, or a `Blob`, which stays in the browser.
fn source(value: &JsValue) -> Result<Box<dyn ReadAt>, Failure> {
    Ok(match value.dyn_ref::<Uint8Array>() {
        Some(bytes) => Box::new(bytes.to_vec()),
        None => Box::new(BlobSource::new(value.unchecked_ref())?),
    })
}

async fn bytes(name: &str, value: &JsValue) -> Result<Vec<u8>, Failure> {
    match value.dyn_ref::<Uint8Array>() {
        Some(bytes) => Ok(bytes.to_vec()),
        None => whole(name, value.unchecked_ref()).await,
    }
}

/// A `Blob` that a worker reads synchronously, in pieces, so that a file is never in the module's memory as a whole.
#[derive(Debug)]
struct BlobSource {
    number: u32,
    size: u64,
}

impl BlobSource {
    fn new(blob: &Blob) -> Result<Self, Failure> {
        let reader = FileReaderSync::new().map_err(|_| {
            let message = "weights in a Blob: expected a worker, where their bytes can be read piece by piece, got a page; give a Uint8Array here";
            Failure::new(Code::UNSUPPORTED, message)
        })?;
        let size = size(blob)?;
        let number = NEXT.replace(NEXT.get().wrapping_add(1));
        BLOBS.with_borrow_mut(|blobs| blobs.insert(number, (blob.clone(), reader)));
        Ok(Self { number, size })
    }
}

impl Drop for BlobSource {
    fn drop(&mut self) {
        // When the thread ends, its blobs are already gone.
        let _ = BLOBS.try_with(|blobs| blobs.borrow_mut().remove(&self.number));
    }
}

impl ReadAt for BlobSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let found = BLOBS.with_borrow(|blobs| blobs.get(&self.number).cloned());
        let elsewhere = || io::Error::other("a Blob is read in the worker that it was given to");
        let (blob, reader) = found.ok_or_else(elsewhere)?;
        let mut at = at;
        for out in out.chunks_mut(PIECE as usize) {
            let end = at + out.len() as u64;
            let piece = blob.slice(at as f64, end as f64);
            let piece = piece.and_then(|piece| reader.read(&piece));
            let piece = piece.map_err(|error| io::Error::other(told(&error)))?;
            let piece = Uint8Array::new(&piece);
            if piece.length() as usize != out.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            piece.copy_to(out);
            at = end;
        }
        Ok(())
    }
}

/// All bytes of a small `Blob`, on pages as well.
async fn whole(name: &str, blob: &Blob) -> Result<Vec<u8>, Failure> {
    let size = size(blob)?;
    if size > WHOLE {
        let what = format!("bytes of {name}");
        return Err(Failure::expected(&what, format!("at most {WHOLE}"), size));
    }
    let read: Result<_, JsValue> = async {
        let buffer = wait(blob.array_buffer()?).await?;
        Ok(Uint8Array::new(&buffer).to_vec())
    }
    .await;
    // This fails if the file was changed or removed after it was chosen.
    read.map_err(|error| {
        let message = format!("a file can't be read: {}", told(&error));
        Failure::new(Code::BAD_FILE, message)
    })
}

fn size(blob: &Blob) -> Result<u64, Failure> {
    let size = Some(blob.size()).filter(|size| (0.0..=9e15).contains(size));
    let missing = || Failure::expected("a Blob", "a size", "none");
    size.map(|size| size as u64).ok_or_else(missing)
}

/// The message of an exception.
fn told(error: &JsValue) -> String {
    let message = Reflect::get(error, &"message".into()).ok();
    let message = message.and_then(|message| message.as_string());
    message.unwrap_or_else(|| format!("{error:?}"))
}
