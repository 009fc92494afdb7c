//! The files of a Hugging Face folder, and the tokenizer made from them.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use moebius_weights::{LFS_POINTER, python_json};
use serde_json::{Map, Value, json};

use crate::{Error, Tokenizer};

/// The tokenizer and template files of a published model, either in a folder, or in memory as in a browser.
#[derive(Clone, Debug)]
pub struct Files(Place);

#[derive(Clone, Debug)]
enum Place {
    Folder(PathBuf),
    /// Contents by name, with `/` between the names of folder and file.
    Memory(BTreeMap<String, Vec<u8>>),
}

impl Files {
    /// The files of a folder, each read on request.
    pub fn in_folder(folder: &Path) -> Self {
        Self(Place::Folder(folder.to_owned()))
    }

    /// Files in memory, by the names that they would have in a folder: `tokenizer.json` and others next to it.
    pub fn in_memory<N: Into<String>>(files: impl IntoIterator<Item = (N, Vec<u8>)>) -> Self {
        let files = files.into_iter();
        Self(Place::Memory(
            files.map(|(name, bytes)| (name.into(), bytes)).collect(),
        ))
    }

    /// The name of a file for errors.
    pub(crate) fn label(&self, name: &str) -> String {
        match &self.0 {
            Place::Folder(folder) => folder.join(name).display().to_string(),
            Place::Memory(_) => name.to_owned(),
        }
    }

    /// The name of the folder, or of all files, for errors.
    pub(crate) fn place(&self) -> String {
        match &self.0 {
            Place::Folder(folder) => folder.display().to_string(),
            Place::Memory(_) => "the files".to_owned(),
        }
    }

    /// The sorted names of the files in the subfolder `inner`.
    pub(crate) fn names_in(&self, inner: &str) -> Result<Vec<String>, Error> {
        let folder = match &self.0 {
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
    fn bytes(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let path = match &self.0 {
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

    /// The JSON object in a file; `None` where the file doesn't exist.
    pub(crate) fn object(&self, name: &str) -> Result<Option<Value>, Error> {
        let bytes = self.bytes(name)?;
        bytes
            .map(|bytes| parse(&bytes, self.label(name)))
            .transpose()
    }

    /// The special tokens in `tokenizer_config.json` and `special_tokens_map.json`, as sorted pairs like `bos_token` and `<s>`. If both
    /// files name a token, the first file's is used.
    pub(crate) fn special_tokens(&self) -> Result<Vec<(String, String)>, Error> {
        let mut found: Vec<(String, String)> = Vec::new();
        for name in ["tokenizer_config.json", "special_tokens_map.json"] {
            let Some(Value::Object(fields)) = self.object(name)? else {
                continue;
            };
            for (key, value) in fields.iter().filter(|(key, _)| key.ends_with("_token")) {
                // Older files have an object with the token's properties instead of its text.
                let content = value.get("content").unwrap_or(value);
                let token = match content {
                    // Flags such as `add_bos_token` have the same ending.
                    Value::Null | Value::Bool(_) => continue,
                    Value::String(token) => token,
                    other => {
                        let what = format!("{key} in {}", self.label(name));
                        return Err(Error::unfit(what, "a token's text", kind(other)));
                    }
                };
                if found.iter().all(|(known, _)| known != key) {
                    found.push((key.clone(), token.clone()));
                }
            }
        }
        found.sort();
        Ok(found)
    }
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

impl Tokenizer {
    /// Reads the tokenizer of a Hugging Face folder from `tokenizer.json`. The ids that end an answer are those of `eos_token_id` in
    /// `generation_config.json` and `config.json`, and of `eos_token` in `tokenizer_config.json` or `special_tokens_map.json`; each of
    /// these four files may be missing. Settings of truncation and padding in `tokenizer.json` are ignored.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::Unfit`] with the path of the file and what was expected in it.
    pub fn from_folder(folder: &Path) -> Result<Self, Error> {
        Self::from_files(&Files::in_folder(folder))
    }

    /// Reads the tokenizer like [`Tokenizer::from_folder`], from files in a folder or in memory.
    ///
    /// # Errors
    /// As [`Tokenizer::from_folder`].
    pub fn from_files(files: &Files) -> Result<Self, Error> {
        let name = "tokenizer.json";
        let Some(mut json) = files.object(name)? else {
            let expected = format!("a file {name}");
            return Err(Error::unfit(files.place(), expected, "none"));
        };
        let named = files.special_tokens()?;
        add_tokens(&mut json, files, &named)?;
        let tokenizer = Self::from_json(json, files.label(name))?;
        let mut ids = Vec::new();
        for name in ["generation_config.json", "config.json"] {
            let found = files.object(name)?;
            let found = found.as_ref().and_then(|config| config.get("eos_token_id"));
            ids.extend(eos_ids(found, &files.label(name))?);
        }
        let id_of = |key: &str| -> Result<Option<u32>, Error> {
            let Some((_, token)) = named.iter().find(|(known, _)| known == key) else {
                return Ok(None);
            };
            let what = || format!("{key} in {}", files.place());
            let id = tokenizer.id(token);
            id.map(Some).ok_or_else(|| {
                Error::unfit(what(), "a token of tokenizer.json", format!("{token:?}"))
            })
        };
        let bos = id_of("bos_token")?;
        ids.extend(id_of("eos_token")?);
        let mut eos = Vec::new();
        for id in ids {
            // A configuration may name an id that the vocabulary doesn't have; no answer ends with it.
            if !eos.contains(&id) && tokenizer.token(id).is_some() {
                eos.push(id);
            }
        }
        tokenizer.ending(bos, eos, format!("eos_token_id in {}", files.place()))
    }
}

/// Adds to a `tokenizer.json` the tokens that only `added_tokens_decoder` of `tokenizer_config.json` and `added_tokens.json` list, in the
/// order of their ids, with the flags of the former, as transformers does.
fn add_tokens(json: &mut Value, files: &Files, named: &[(String, String)]) -> Result<(), Error> {
    let mut found: BTreeMap<u64, Value> = BTreeMap::new();
    if let Some(Value::Object(ids)) = files.object("added_tokens.json")? {
        for (content, id) in ids {
            let special = named.iter().any(|(_, token)| *token == content);
            let token = json!({"content": content, "special": special, "normalized": false});
            found.extend(id.as_u64().map(|id| (id, token)));
        }
    }
    let config = files.object("tokenizer_config.json")?;
    let decoder = config
        .as_ref()
        .and_then(|config| config.get("added_tokens_decoder"));
    for (id, token) in decoder.and_then(Value::as_object).into_iter().flatten() {
        let parsed = id.parse().ok().filter(|_| token["content"].is_string());
        let id = parsed.ok_or_else(|| {
            let what = format!(
                "added_tokens_decoder in {}",
                files.label("tokenizer_config.json")
            );
            Error::unfit(
                what,
                "tokens by their ids",
                format!("{id:?}: {}", kind(token)),
            )
        })?;
        found.insert(id, token.clone());
    }
    let Some(known) = json.get_mut("added_tokens").and_then(Value::as_array_mut) else {
        return Ok(());
    };
    for (id, token) in found {
        let is_same = |other: &&mut Value| other["content"] == token["content"];
        let mut whole = json!({
            "id": id, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false,
        });
        let old = known.iter_mut().find(is_same);
        let stated = [old.as_deref().cloned(), Some(token.clone())];
        for (key, value) in stated
            .into_iter()
            .flatten()
            .filter_map(into_object)
            .flatten()
        {
            whole[key.as_str()] = value;
        }
        match old {
            Some(old) => *old = whole,
            None => known.push(whole),
        }
    }
    Ok(())
}

fn into_object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(entries) => Some(entries),
        _ => None,
    }
}

/// The ids in `eos_token_id`, which may be a number, an array or missing.
fn eos_ids(value: Option<&Value>, file: &str) -> Result<Vec<u32>, Error> {
    let one = |value: &Value| {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| {
            let what = format!("eos_token_id in {file}");
            Error::unfit(what, "one or several ids", kind(value))
        })
    };
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(ids)) => ids.iter().map(one).collect(),
        Some(id) => Ok(vec![one(id)?]),
    }
}
