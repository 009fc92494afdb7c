//! The files of a Hugging Face folder.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use moebius_weights::{LFS_POINTER, python_json};
use serde_json::Value;

use crate::Error;

/// Name of the file with the settings of tokenizer and template.
pub(crate) const CONFIG: &str = "tokenizer_config.json";

/// The tokenizer and template files of a published model, either in a folder, or in memory as in a browser.
#[derive(Clone, Debug)]
pub struct Files {
    place: Place,
    /// `tokenizer_config.json`, which tokenizer and template both need, parsed at the first use.
    config: OnceLock<Option<Arc<Value>>>,
}

#[derive(Clone, Debug)]
enum Place {
    Folder(PathBuf),
    /// Contents by name, with `/` between the names of folder and file.
    Memory(BTreeMap<String, Vec<u8>>),
}

impl Files {
    /// The files of a folder, each read on request.
    pub fn in_folder(folder: &Path) -> Self {
        Self::at(Place::Folder(folder.to_owned()))
    }

    /// Files in memory, by the names that they would have in a folder: `tokenizer.json` and others next to it.
    pub fn in_memory<N: Into<String>>(files: impl IntoIterator<Item = (N, Vec<u8>)>) -> Self {
        let files = files.into_iter();
        Self::at(Place::Memory(
            files.map(|(name, bytes)| (name.into(), bytes)).collect(),
        ))
    }

    fn at(place: Place) -> Self {
        Self {
            place,
            config: OnceLock::new(),
        }
    }

    /// The name of a file for errors.
    pub(crate) fn label(&self, name: &str) -> String {
        match &self.place {
            Place::Folder(folder) => folder.join(name).display().to_string(),
            Place::Memory(_) => name.to_owned(),
        }
    }

    /// The name of the folder, or of all files, for errors.
    pub(crate) fn place(&self) -> String {
        match &self.place {
            Place::Folder(folder) => folder.display().to_string(),
            Place::Memory(_) => "the files".to_owned(),
        }
    }

    /// The sorted names of the files in the subfolder `inner`.
    pub(crate) fn names_in(&self, inner: &str) -> Result<Vec<String>, Error> {
        let folder = match &self.place {
            Place::Folder(folder) => folder.join(inner),
            Place::Memory(files) => {
                let within = |name: &String| name.starts_with(&format!("{inner}/"));
                return Ok(files.keys().filter(|name| within(name)).cloned().collect());
            }
        };
        let read = |source| Error::Read {
            path: folder.clone(),
            source,
        };
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(read(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(read)?.file_name();
            // Names that aren't UTF-8 are skipped, as no template has one.
            names.extend(name.to_str().map(|name| format!("{inner}/{name}")));
        }
        names.sort();
        Ok(names)
    }

    /// The bytes of a file; `None` where the file doesn't exist.
    pub(crate) fn bytes(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let path = match &self.place {
            Place::Folder(folder) => folder.join(name),
            Place::Memory(files) => return Ok(files.get(name).cloned()),
        };
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    /// The text of a file; `None` where the file doesn't exist.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, Error> {
        let text = self.bytes(name)?.map(String::from_utf8).transpose();
        text.map_err(|error| Error::unfit(self.label(name), "UTF-8", error.utf8_error()))
    }

    /// The `model_type` in `config.json`; empty where no file says it.
    pub(crate) fn family(&self) -> Result<String, Error> {
        let config = self.object("config.json")?.unwrap_or_default();
        Ok(config["model_type"].as_str().unwrap_or_default().to_owned())
    }

    /// The class of the tokenizer in `tokenizer_config.json`, without `Fast` at its end; empty where no file says it.
    pub(crate) fn class(&self) -> Result<String, Error> {
        let config = self.config()?;
        let class = config
            .as_deref()
            .and_then(|config| config.get("tokenizer_class"));
        let class = class.and_then(Value::as_str).unwrap_or_default();
        Ok(class.strip_suffix("Fast").unwrap_or(class).to_owned())
    }

    /// The JSON object in a file; `None` where the file doesn't exist.
    pub(crate) fn object(&self, name: &str) -> Result<Option<Value>, Error> {
        let bytes = self.bytes(name)?;
        bytes
            .map(|bytes| parse(&bytes, self.label(name)))
            .transpose()
    }

    /// The JSON object in `tokenizer_config.json`; `None` where the file doesn't exist.
    pub(crate) fn config(&self) -> Result<Option<Arc<Value>>, Error> {
        if let Some(config) = self.config.get() {
            return Ok(config.clone());
        }
        let read = self.object(CONFIG)?.map(Arc::new);
        Ok(self.config.get_or_init(|| read).clone())
    }

    /// The special tokens that the files name, as sorted pairs like `bos_token` and the token's text or properties. Of two files that name
    /// a token the first counts, in the order of `transformers`: `special_tokens_map.json`, then `tokenizer_config.json`, but the other
    /// way round where the latter lists `added_tokens_decoder`.
    pub(crate) fn special_tokens(&self) -> Result<Vec<(String, Value)>, Error> {
        const MAP: &str = "special_tokens_map.json";
        let config = self.config()?;
        let config = config.as_deref().and_then(Value::as_object);
        let map = self.object(MAP)?;
        let map = map.as_ref().and_then(Value::as_object);
        let mut places = [(MAP, map), (CONFIG, config)];
        if config.is_some_and(|config| config.contains_key("added_tokens_decoder")) {
            places.reverse();
        }
        let mut found: BTreeMap<String, Value> = BTreeMap::new();
        for (name, fields) in places {
            let fields = fields.into_iter().flatten();
            for (key, value) in fields.filter(|(key, _)| key.ends_with("_token")) {
                match value {
                    // Flags such as `add_bos_token` have the same ending.
                    Value::Null | Value::Bool(_) => {}
                    token if content(token).is_some() => {
                        found.entry(key.clone()).or_insert_with(|| token.clone());
                    }
                    other => {
                        let what = format!("{key} in {}", self.label(name));
                        return Err(Error::unfit(what, "a token's text", kind(other)));
                    }
                }
            }
        }
        Ok(found.into_iter().collect())
    }
}

/// The text of a token that a file writes as a text, or as an object with the token's properties.
pub(crate) fn content(token: &Value) -> Option<&str> {
    token.get("content").unwrap_or(token).as_str()
}

/// Parses bytes as a JSON object; errors call it `what`.
pub(crate) fn parse(bytes: &[u8], what: impl fmt::Display) -> Result<Value, Error> {
    if bytes.starts_with(LFS_POINTER) {
        return Err(Error::unfit(
            what,
            "JSON",
            "a pointer of Git LFS: `git lfs pull` brings the file",
        ));
    }
    let value: Value = python_json(bytes).map_err(|error| Error::unfit(&what, "JSON", error))?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(Error::unfit(what, "a JSON object", kind(&value)))
    }
}

/// Describes the kind of a JSON value, for errors.
pub(crate) fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(bool) => bool.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("the text {:?}", text.chars().take(40).collect::<String>()),
        Value::Array(items) => format!("an array of {}", items.len()),
        Value::Object(fields) => format!("an object of {}", fields.len()),
    }
}
