//! A tokenizer from a Hugging Face folder.

use std::path::Path;

use serde_json::Value;

use crate::files::{Files, kind};
use crate::{Error, Tokenizer};

impl Tokenizer {
    /// Reads `tokenizer.json`. Which ids end an answer say `eos_token_id` in `generation_config.json` and `config.json`, one or
    /// several, and `eos_token` in `tokenizer_config.json` or `special_tokens_map.json`: all of them count, and each file may be missing.
    /// That the first file would cut or pad texts is ignored.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::Unfit`] with the file, and what it should have held.
    pub fn from_folder(folder: &Path) -> Result<Self, Error> {
        Self::from_files(&Files::in_folder(folder))
    }

    /// [`Tokenizer::from_folder`] of files wherever they are.
    ///
    /// # Errors
    /// As [`Tokenizer::from_folder`].
    pub fn from_files(files: &Files) -> Result<Self, Error> {
        let name = "tokenizer.json";
        let Some(json) = files.object(name)? else {
            let expected = format!("a file {name}");
            return Err(Error::unfit(files.place(), expected, "none"));
        };
        let tokenizer = Self::from_json(json, files.label(name))?;
        let named = files.special_tokens()?;
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
            if !eos.contains(&id) {
                eos.push(id);
            }
        }
        tokenizer.ending(bos, eos, format!("eos_token_id in {}", files.place()))
    }
}

/// The ids of `eos_token_id`: a number, an array of them, or nothing.
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
